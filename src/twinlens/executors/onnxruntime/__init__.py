"""ONNX Runtime in this process: decoders through onnxruntime-genai, at engine level."""
