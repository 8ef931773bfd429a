"""ONNX Runtime in this process: decoders through onnxruntime-genai, classifiers of images through itself."""
