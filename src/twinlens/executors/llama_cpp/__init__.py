"""llama.cpp in this process: decoders from GGUF files, at engine level."""
