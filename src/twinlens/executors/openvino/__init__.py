"""OpenVINO in this process: decoders with a stateful KV cache, classifiers of images."""
