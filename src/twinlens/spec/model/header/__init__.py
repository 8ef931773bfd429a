"""Headers of weight files: tensors, formats and sizes of GGUF and safetensors, read without reading a weight."""
