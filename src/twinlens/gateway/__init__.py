"""Gateway: one OpenAI address in front of several servers, routed by what was measured of them."""
