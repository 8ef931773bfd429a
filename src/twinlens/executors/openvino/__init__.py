"""OpenVINO in this process: decoders with a stateful KV cache, at engine level."""
