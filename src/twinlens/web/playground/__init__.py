"""The playground: a talk with one or two servers, its times taken here, and every figure one request's."""
