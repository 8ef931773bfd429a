"""A server of the KServe v2 protocol (Triton, KServe, MLServer, OpenVINO Model Server), asked to classify images."""
