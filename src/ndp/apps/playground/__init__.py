"""The playground: a page on which points become functions, and the JSON behind it (extra `serve`).

engine.py       one worker that runs requests of the same kind together
catalogue.py    the models that ship, as the page shows them
tasks.py        what is computed: draws, summaries, exact posteriors, densities
functions.py, images.py, optimise.py    the endpoints of a tab each; app.py lists them
limits.py, server.py         what a request may cost, and how the server listens
static/         the page: plain modules, nothing from elsewhere
"""
