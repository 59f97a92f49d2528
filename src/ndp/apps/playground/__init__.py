"""The playground: a web page on which you click points and see the functions through them (extra `serve`).

server.py       the HTTP server: where it listens, and its deadlines
app.py          the application: the page, and the endpoints of its tabs
functions.py, images.py, optimise.py    the endpoints of one tab each
schemas.py, limits.py, answering.py     what requests may hold and cost, and how they are answered
engine.py       the worker thread that computes requests in batches
tasks.py        the computations: draws of several requests in one batch
catalogue.py    the shipped models, and how the page shows them
static/         the page: plain JavaScript modules, nothing from other hosts
"""

from ndp.core.extras import require

require("fastapi", "uvicorn", extra="serve")
