"""TensorRT in this process: classifiers of images, from ONNX. Tested on recorded output only."""
