"""Writes grafana/dashboards/*.json. Change this file, never those: `python grafana/generate.py`.

All queries are InfluxQL, which InfluxDB 1.x, 2.x (through a DBRP mapping) and 3 Core answer. Measurements, tags and
fields are those of farm/influx/points.py. Variables are all of the kind that Grafana escapes for use in a regular
expression (multi or All), so that a card called `DG4016 (0x000015)` works.
"""

# ruff: noqa: S608  (what becomes part of a query stands in this file)

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

DS: Json = {"type": "influxdb", "uid": "${ds}"}
METRICS = ("bw_bytes", "iops", "lat_mean_ns", "lat_p99_ns", "lat_p99.9_ns")
RED, GREEN, YELLOW, GREY, BLUE = "red", "green", "yellow", "#8e8e8e", "blue"

# ---- queries -------------------------------------------------------------------------------------------------

PLACE = '"board" =~ /^$board$/ AND "card" =~ /^$card$/'
WORK = '"workload" =~ /^$workload$/ AND "variant" =~ /^$variant$/'
CAMPAIGN = '"campaign" =~ /^$campaign$/'
# A night is what starts between noon and noon, UTC: cut at midnight, it would be two.
IN_TIME = "$timeFilter"


def where(*conditions: str) -> str:
    """The WHERE clause of conditions that all hold, the dashboard's time among them."""
    return "WHERE " + " AND ".join((IN_TIME, *conditions))


def table(query: str) -> Json:
    """A query whose answer is a table."""
    return {"query": query, "resultFormat": "table"}


def lines(query: str, alias: str) -> Json:
    """A query whose answer is one line for each combination of tags, named by `alias`."""
    return {"query": query, "resultFormat": "time_series", "alias": alias}


# ---- fields --------------------------------------------------------------------------------------------------


def by_name(name: str, **properties: Any) -> Json:
    """Settings of one column."""
    return _override("byName", name, properties)


def by_regexp(pattern: str, **properties: Any) -> Json:
    """Settings of the columns whose names match."""
    return _override("byRegexp", pattern, properties)


def _override(matcher: str, option: str, properties: Mapping[str, Any]) -> Json:
    listed = [
        {"id": name.replace("custom_", "custom."), "value": value} for name, value in properties.items()
    ]
    return {"matcher": {"id": matcher, "options": option}, "properties": listed}


def colours(**words: str) -> list[Json]:
    """Words that are shown in a colour; the word itself stays, so that colour is never the only sign."""
    options = {
        word: {"text": word, "color": colour, "index": index}
        for index, (word, colour) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def thresholds(base: str, *steps: tuple[float, str]) -> Json:
    """Colours from values on; `base` below the first."""
    listed = [{"value": None, "color": base}, *({"value": value, "color": colour} for value, colour in steps)]
    return {"mode": "absolute", "steps": listed}


VERDICTS = colours(slower=RED, faster=GREEN, same=BLUE, inconclusive=YELLOW)
HEALTH = colours(ok=GREEN, failed=YELLOW, quarantine=RED)
STATUS = colours(ok=GREEN, done=GREEN, running=BLUE, interrupted=YELLOW, void=YELLOW, failed=RED)
# Beyond the usual band or within it. Not red and green: more is better for rates and worse for latencies.
CHANGE = thresholds(BLUE, (-3, GREY), (3, BLUE))
COLOURED: Json = {"type": "color-text"}
# Names of series and columns carry the metric's name, and the metric's name its unit.
UNITS = [
    by_regexp("/bw_bytes|bytes\\/s/", unit="Bps"),
    by_regexp("/iops/", unit="iops"),
    by_regexp("/_ns$/", unit="ns"),
]


def report_link() -> Json:
    """From a row with a run to that run's HTML report."""
    return {
        "links": [
            {
                "title": "Report of this run",
                "url": "${reports}/${__data.fields.run}.html",
                "targetBlank": True,
            }
        ]
    }


def trend_link() -> Json:
    """From a row with board and workload to their history."""
    return {
        "links": [
            {
                "title": "History of this workload on this board",
                "url": "/d/farm-trend?var-campaign=${campaign:percentencode}&var-board=${__data.fields.board}"
                "&var-workload=${__data.fields.workload}&var-metric=${__data.fields.metric}",
                "targetBlank": False,
            }
        ]
    }


# ---- panels --------------------------------------------------------------------------------------------------


class Page:
    """Panels from left to right, row by row, on Grafana's grid of 24 columns."""

    def __init__(self) -> None:
        self.panels: list[Json] = []
        self._x = self._y = self._row = 0

    def add(
        self,
        kind: str,
        title: str,
        targets: Iterable[Json],
        *,
        size: tuple[int, int],
        empty: str,
        about: str,
        options: Json,
        defaults: Json | None = None,
        overrides: Iterable[Json] = (),
        transformations: Iterable[Json] = (),
        **more: Any,
    ) -> None:
        """One panel of (width, height) grid units. `empty` is what it says where the answer is empty."""
        width, height = size
        if self._x + width > 24:
            self._x, self._y, self._row = 0, self._y + self._row, 0
        position = {"x": self._x, "y": self._y, "w": width, "h": height}
        self._x, self._row = self._x + width, max(self._row, height)
        self.panels.append(
            {
                "id": len(self.panels) + 1,
                "type": kind,
                "title": title,
                "description": about,
                "datasource": DS,
                "gridPos": position,
                "targets": [
                    {"refId": chr(ord("A") + number), "datasource": DS, "rawQuery": True, **target}
                    for number, target in enumerate(targets)
                ],
                "fieldConfig": {
                    "defaults": {"noValue": empty, **(defaults or {})},
                    "overrides": list(overrides),
                },
                "options": options,
                "transformations": list(transformations),
                **more,
            }
        )

    def number(
        self,
        title: str,
        query: str,
        *,
        empty: str,
        about: str,
        steps: Json,
        width: int = 6,
        unit: str = "none",
    ) -> None:
        """One number."""
        self.add(
            "stat",
            title,
            [table(query)],
            size=(width, 4),
            empty=empty,
            about=about,
            defaults={"unit": unit, "thresholds": steps, "color": {"mode": "thresholds"}},
            options={
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "percentChangeColorMode": "standard",
                "reduceOptions": {"calcs": ["sum"], "fields": "", "values": False},
                "showPercentChange": False,
                "textMode": "value",
                "wideLayout": True,
            },
        )

    def rows(
        self,
        title: str,
        query: str,
        *,
        empty: str,
        about: str,
        overrides: Iterable[Json] = (),
        sort: tuple[str, bool] | None = None,
        hide: Iterable[str] = (),
        height: int = 9,
        width: int = 24,
    ) -> None:
        """A table; `sort` is a column and whether downwards, `hide` are columns that only sort or link."""
        by, down = sort or ("Time", True)
        organize = {
            "id": "organize",
            "options": {"excludeByName": dict.fromkeys(hide, True), "indexByName": {}, "renameByName": {}},
        }
        self.add(
            "table",
            title,
            [table(query)],
            size=(width, height),
            empty=empty,
            about=about,
            defaults={
                "custom": {
                    "align": "auto",
                    "cellOptions": {"type": "auto"},
                    "filterable": True,
                    "inspect": False,
                }
            },
            overrides=overrides,
            options={"cellHeight": "sm", "frameIndex": 0, "showHeader": True, "sortBy": []},
            transformations=[
                {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": by, "desc": down}]}},
                organize,
            ],
        )

    def graph(
        self,
        title: str,
        targets: Iterable[Json],
        *,
        empty: str,
        about: str,
        style: str = "line",
        height: int = 10,
        width: int = 24,
        defaults: Json | None = None,
        overrides: Iterable[Json] = (),
        **more: Any,
    ) -> None:
        """Values over time, as lines or as points."""
        custom = {
            "drawStyle": style,
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "pointSize": 5,
            "showPoints": "always",
            "spanNulls": True,
            "fillOpacity": 0,
            "axisPlacement": "auto",
            "scaleDistribution": {"type": "linear"},
        }
        self.add(
            "timeseries",
            title,
            targets,
            size=(width, height),
            empty=empty,
            about=about,
            defaults={"custom": custom, "color": {"mode": "palette-classic"}, **(defaults or {})},
            overrides=overrides,
            options={
                "legend": {
                    "calcs": ["lastNotNull"],
                    "displayMode": "table",
                    "placement": "right",
                    "showLegend": True,
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            **more,
        )

    def states(
        self, title: str, query: str, alias: str, *, empty: str, about: str, height: int = 6, **more: Any
    ) -> None:
        """Words over time, equal neighbours joined."""
        self.add(
            "state-timeline",
            title,
            [lines(query, alias)],
            size=(24, height),
            empty=empty,
            about=about,
            defaults={
                "custom": {"fillOpacity": 70, "lineWidth": 0},
                "color": {"mode": "palette-classic"},
                **more,
            },
            options={
                "alignValue": "left",
                "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
                "mergeValues": True,
                "rowHeight": 0.9,
                "showValue": "auto",
                "tooltip": {"mode": "single", "sort": "none"},
            },
        )


# ---- variables -----------------------------------------------------------------------------------------------


def datasource() -> Json:
    """Which server is asked."""
    return {
        "name": "ds",
        "label": "Server",
        "type": "datasource",
        "query": "influxdb",
        "refresh": 1,
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "regex": "",
        "current": {"text": "farm", "value": "farm"},
    }


def asked(name: str, label: str, query: str, *, everything: bool = True, newest_first: bool = False) -> Json:
    """A variable whose values the server knows."""
    choice: Json = {"text": ["All"], "value": ["$__all"]} if everything else {"text": "", "value": ""}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DS,
        "query": query,
        "refresh": 2,
        "sort": 2 if newest_first else 1,
        "hide": 0,
        "multi": everything,
        "includeAll": everything,
        "regex": "",
        "current": choice,
        **({"allValue": ".*"} if everything else {}),
    }


def tag(name: str, label: str, measurement: str = "trial", *conditions: str) -> Json:
    """A variable with the values of a tag."""
    condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return asked(name, label, f'SHOW TAG VALUES FROM "{measurement}" WITH KEY = "{name}"{condition}')


def metric() -> Json:
    """The variable that picks what is looked at."""
    options = [{"text": name, "value": name, "selected": name == METRICS[0]} for name in METRICS]
    return {
        "name": "metric",
        "label": "Metric",
        "type": "custom",
        "query": ",".join(METRICS),
        "options": options,
        "current": options[0],
        "hide": 0,
        "multi": False,
        "includeAll": False,
    }


def reports() -> Json:
    """Where the HTML reports lie."""
    address = "http://localhost:8000"
    return {
        "name": "reports",
        "label": "Reports at",
        "type": "textbox",
        "query": address,
        "hide": 0,
        "current": {"text": address, "value": address},
        "options": [{"text": address, "value": address, "selected": True}],
    }


CAMPAIGNS = tag("campaign", "Campaign", "run")
BOARDS = tag("board", "Board", "trial", CAMPAIGN)
CARDS = tag("card", "Card", "trial", CAMPAIGN, '"board" =~ /^$board$/')
WORKLOADS = tag("workload", "Workload", "trial", CAMPAIGN)
VARIANTS = tag("variant", "Variant", "trial", CAMPAIGN)


def dashboard(
    uid: str, title: str, about: str, since: str, page: Page, variables: list[Json], marks: list[Json]
) -> Json:
    """A whole dashboard. `since` is how far back it looks at first."""
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["farm"],
        "schemaVersion": 41,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "utc",
        "time": {"from": since, "to": "now"},
        "refresh": "5m",
        "links": [
            {
                "title": "farm",
                "type": "dashboards",
                "tags": ["farm"],
                "asDropdown": False,
                "icon": "external link",
                "includeVars": True,
                "keepTime": False,
                "targetBlank": False,
                "tooltip": "",
                "url": "",
            }
        ],
        "annotations": {"list": marks},
        "templating": {"list": variables},
        "panels": page.panels,
    }


def mark(name: str, colour: str, query: str, text: str, tags: str) -> Json:
    """An annotation query; `text` and `tags` are the columns that are shown."""
    return {
        "name": name,
        "datasource": DS,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "target": {
            "refId": "Anno",
            "datasource": DS,
            "query": query,
            "rawQuery": True,
            "fromAnnotations": True,
            "textEditor": True,
            "textColumn": text,
            "tagsColumn": tags,
        },
    }


# ---- the four dashboards -------------------------------------------------------------------------------------

VERDICT_COLUMNS = [
    by_name("Time", custom_width=160),
    by_name("verdict", mappings=VERDICTS, custom_cellOptions=COLOURED),
    by_name("change", unit="percent", decimals=1),
    by_name("low", unit="percentunit", decimals=1),
    by_name("high", unit="percentunit", decimals=1),
    by_name("p", decimals=4),
    by_name("spread_base", unit="percentunit", decimals=1),
    by_name("spread_cand", unit="percentunit", decimals=1),
    by_name("run", **report_link()),
    by_name("workload", custom_width=190, **trend_link()),
    by_name("reason", custom_width=420),
]
# `score` is 1 faster, -1 slower: times the square of the change, the worst is the least
WORST = '("ratio" - 1) * ("ratio" - 1) * "score" AS "worst"'
AS_PERCENT = '("ratio" - 1) * 100 AS "change"'


def nightly() -> Json:
    """What changed last night, worst first."""
    page = Page()
    count = 'SELECT count("ratio") FROM "verdict" '
    page.number(
        "Slower",
        count + where(CAMPAIGN, PLACE, WORK, "\"verdict\" = 'slower'"),
        empty="none",
        about="Verdicts `slower` in this time: corrected p below 5 % and beyond the band.",
        steps=thresholds(RED),
    )
    page.number(
        "Faster",
        count + where(CAMPAIGN, PLACE, WORK, "\"verdict\" = 'faster'"),
        empty="none",
        about="Verdicts `faster` in this time.",
        steps=thresholds(GREEN),
    )
    page.number(
        "Unstable",
        count + where(CAMPAIGN, PLACE, WORK, '"unstable" = 1'),
        empty="none",
        about="Candidates with MMC errors, hangs or voids that the baseline lacks; `faster` and `same` are withheld.",
        steps=thresholds(YELLOW),
    )
    page.number(
        "Boots void or failed",
        'SELECT sum("boots_void") + sum("boots_failed") FROM "run" ' + where(CAMPAIGN),
        empty="no run in this time",
        about="Boots that measured nothing that counts; the table at the end names the reasons.",
        steps=thresholds(GREEN, (1, YELLOW)),
    )
    columns = (
        'SELECT "board", "card", "workload", "direction", "variant", "metric", "verdict", '
        f'{AS_PERCENT}, "low", "high", "p", "n_base", "n_cand", "reason", "run", {WORST} FROM "verdict" '
    )
    page.rows(
        "What changed, worst first",
        columns + where(CAMPAIGN, PLACE, WORK, "(\"verdict\" = 'slower' OR \"verdict\" = 'faster')"),
        empty="nothing became faster or slower in this time",
        about="Change of the candidate against the baseline, with the simultaneous 95 % interval of the ratio.",
        overrides=VERDICT_COLUMNS,
        sort=("worst", False),
        hide=("worst",),
        height=10,
    )
    page.rows(
        "Cannot be believed yet",
        'SELECT "board", "card", "workload", "direction", "variant", "metric", "verdict", "unstable", '
        f'{AS_PERCENT}, "more_boots", "reason", "run" FROM "verdict" '
        + where(CAMPAIGN, PLACE, WORK, '("verdict" = \'inconclusive\' OR "unstable" = 1)'),
        empty="every verdict of this time is conclusive and stable",
        about="Inconclusive or unstable; more_boots is how many more boots of each variant would settle it.",
        overrides=[
            *VERDICT_COLUMNS,
            by_name(
                "unstable",
                mappings=[{"type": "value", "options": {"1": {"text": "unstable"}, "0": {"text": "-"}}}],
            ),
        ],
        sort=("more_boots", False),
        height=8,
    )
    page.rows(
        "Runs",
        'SELECT "campaign", "branch", "run", "status", "boards", "boots_ok", "boots_void", "boots_failed", "trials", '
        '"seconds", "note" FROM "run" ' + where(CAMPAIGN),
        empty="no run in this time",
        about="Every run, the newest first, with a link to its report.",
        overrides=[
            by_name("status", mappings=STATUS, custom_cellOptions=COLOURED),
            by_name("seconds", displayName="took", unit="s"),
            by_name("run", **report_link()),
        ],
        height=7,
    )
    page.rows(
        "Trials without a number",
        'SELECT "board", "variant", "workload", "status", "reason", "run" FROM "trial" '
        + where(CAMPAIGN, PLACE, WORK, "\"status\" <> 'ok'"),
        empty="every trial of this time counted",
        about="Void: not what was meant to be measured. Failed: no result. Neither is in any statistic.",
        overrides=[
            by_name("status", mappings=STATUS, custom_cellOptions=COLOURED),
            by_name("run", **report_link()),
        ],
        height=8,
    )
    about = "What got slower or faster in the last nights, where, and whether that can be believed."
    variables = [datasource(), CAMPAIGNS, BOARDS, CARDS, WORKLOADS, VARIANTS, reports()]
    return dashboard("farm-nightly", "farm: Nightly", about, "now-36h", page, variables, [])


def compare() -> Json:
    """One run: verdicts and distributions."""
    page = Page()
    of_run = "\"run\" = '$run'"
    of_metric = "\"metric\" = '$metric'"
    page.rows(
        "Verdicts",
        'SELECT "board", "card", "workload", "direction", "variant", "baseline", "verdict", '
        f'{AS_PERCENT}, "low", "high", "p", "n_base", "n_cand", "spread_base", "spread_cand", "more_boots", "reason", '
        f'"run", "metric", {WORST} FROM "verdict" ' + where(PLACE, WORK, of_run, of_metric),
        empty="no verdict: pick a run, or another metric",
        about="One row for each board, workload and candidate; the interval is simultaneous over the whole matrix.",
        overrides=VERDICT_COLUMNS,
        sort=("worst", False),
        hide=("Time", "worst", "run", "metric"),
        height=12,
    )
    page.add(
        "bargauge",
        "Change against the baseline",
        [lines(f"SELECT {AS_PERCENT} FROM \"verdict\" {where(PLACE, WORK, of_run, of_metric)} GROUP BY "
               '"board", "workload", "direction", "variant"',
               "$tag_board $tag_workload $tag_direction $tag_variant")],
        size=(24, 12),
        empty="no verdict: pick a run, or another metric",
        about="In percent of the baseline; whether it is more than noise is in the table above.",
        defaults={
            "unit": "percent", "decimals": 1, "min": -10, "max": 10, "thresholds": CHANGE,
            "color": {"mode": "thresholds"},
        },
        options={
            "displayMode": "basic", "orientation": "horizontal", "showUnfilled": True, "valueMode": "text",
            "namePlacement": "left", "sizing": "manual", "minVizHeight": 16, "minVizWidth": 8, "maxVizHeight": 24,
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    )  # fmt: skip
    series = ' GROUP BY "board", "workload", "direction", "variant"'
    of_values = (PLACE, WORK, of_run, "\"status\" = 'ok'")
    page.rows(
        "Distribution",
        'SELECT count("$metric") AS "trials", min("$metric") AS "min $metric", '
        'percentile("$metric", 25) AS "p25 $metric", median("$metric") AS "median $metric", '
        'percentile("$metric", 75) AS "p75 $metric", max("$metric") AS "max $metric", '
        'stddev("$metric") / mean("$metric") AS "spread" FROM "trial" ' + where(*of_values) + series,
        empty="no good trial with this metric in this run: pick another run or metric",
        about="Over all good trials of the run; spread is standard deviation / mean.",
        overrides=[*UNITS, by_name("spread", unit="percentunit", decimals=1)],
        sort=("workload", False),
        hide=("Time",),
        height=12,
    )
    page.graph(
        "Every trial, in the order of the boots",
        [lines('SELECT "$metric" FROM "trial" ' + where(*of_values) + series,
               "$tag_board $tag_workload $tag_direction $tag_variant $metric")],
        empty="no good trial with this metric in this run: pick another run or metric",
        about="A drift over the session shows here, and so does a boot that stands alone.",
        style="points",
        overrides=UNITS,
    )  # fmt: skip
    about = "Variants x workloads of one run: verdicts, changes and distributions."
    newest = asked(
        "run", "Run", 'SELECT DISTINCT("run") FROM "run" WHERE "campaign" =~ /^$campaign$/',
        everything=False, newest_first=True,
    )  # fmt: skip
    variables = [datasource(), CAMPAIGNS, newest, BOARDS, CARDS, WORKLOADS, VARIANTS, metric(), reports()]
    return dashboard("farm-compare", "farm: Compare", about, "now-2d", page, variables, [])


def trend() -> Json:
    """One board and workload over months."""
    page = Page()
    of_branch = '"branch" =~ /^$branch$/'
    scope = (CAMPAIGN, of_branch, PLACE, WORK)
    of_metric = "\"metric\" = '$metric'"
    page.graph(
        "Nightly medians",
        [lines('SELECT median("$metric") FROM "trial" ' + where(*scope, "\"status\" = 'ok'")
               + ' GROUP BY time(1d, 12h), "board", "workload", "direction", "variant" fill(none)',
               "$tag_board $tag_workload $tag_direction $tag_variant $metric")],
        empty="no good trial with this metric in this time: pick another metric or a longer time",
        about="The median of each night's good trials. Marks are change points found by `farm trend`.",
        overrides=UNITS,
        height=12,
    )  # fmt: skip
    page.states(
        "Kernel",
        'SELECT last("kernel") FROM "boot" '
        + where(CAMPAIGN, of_branch, PLACE, '"variant" =~ /^$variant$/')
        + ' GROUP BY time(1d, 12h), "board", "variant" fill(none)',
        "$tag_board $tag_variant",
        empty="no boot in this time",
        about="The kernel release that the boards said they were running.",
    )
    page.graph(
        "Candidate / baseline",
        [lines('SELECT mean("ratio") FROM "verdict" ' + where(*scope, of_metric)
               + ' GROUP BY time(1d, 12h), "board", "workload", "direction", "variant" fill(none)',
               "$tag_board $tag_workload $tag_direction $tag_variant")],
        empty="no verdict with this metric in this time",
        about="Measured in the same night on the same card, so that what befalls both cancels out.",
        defaults={"unit": "percentunit", "decimals": 1},
        height=9,
    )  # fmt: skip
    page.rows(
        "Change points",
        'SELECT "board", "workload", "variant", '
        f'{AS_PERCENT}, "low", "high", "run_before", "run_after", "kernel_before", "kernel_after", "commit_before", '
        '"commit_after", "p", "card", "direction" FROM "changepoint" ' + where(*scope, of_metric),
        empty="no change point in this time",
        about="Steps with at least three nights on each side, with the runs, kernels and commits on both sides.",
        overrides=[
            by_name("Time", custom_width=160),
            by_name("workload", custom_width=190),
            by_name("p", decimals=4),
            by_name("change", unit="percent", decimals=1),
            by_name("low", unit="percentunit", decimals=1),
            by_name("high", unit="percentunit", decimals=1),
        ],
        height=7,
    )
    marks = [
        mark(
            "Change points",
            RED,
            'SELECT "text", "workload" FROM "changepoint" ' + where(*scope, of_metric),
            "text",
            "workload",
        )
    ]
    about = "A board and a workload over months: nightly medians, change points, kernels."
    branch = tag("branch", "Branch", "trial", CAMPAIGN)
    variables = [datasource(), CAMPAIGNS, branch, BOARDS, CARDS, WORKLOADS, VARIANTS, metric()]
    return dashboard("farm-trend", "farm: Trend", about, "now-60d", page, variables, marks)


def boards() -> Json:
    """Health of the boards and their cards."""
    page = Page()
    here = '"board" =~ /^$board$/'
    page.rows(
        "Health now",
        'SELECT last("health") AS "health", "failures_in_a_row" AS "failed in a row", "reason" FROM "board" '
        + where(here)
        + ' GROUP BY "board", "soc"',
        empty="no health check in this time; `farm check BOARD` makes one",
        about="The last word of each board, from its last check or from a run that gave it up.",
        overrides=[by_name("health", mappings=HEALTH, custom_cellOptions=COLOURED)],
        sort=("board", False),
        height=7,
        width=12,
    )
    page.rows(
        "Card: life and wear",
        'SELECT last("card.life_time") AS "life time A B", "card.pre_eol" AS "end of life" FROM "boot" '
        + where(here, '"card" =~ /^$card$/')
        + ' GROUP BY "board", "card"',
        empty="no card in this time tells its life time (SD cards do not)",
        about="EXT_CSD life time A and B: each step is 10 % used. End of life: 0x01 normal, 0x02 warning, 0x03 urgent.",
        sort=("board", False),
        height=7,
        width=12,
    )
    page.states(
        "Health",
        'SELECT last("health") FROM "board" '
        + where(here)
        + ' GROUP BY time($__interval), "board" fill(none)',
        "$tag_board",
        empty="no health check in this time; `farm check BOARD` makes one",
        about="ok, failed, quarantine: what each check said, and each run that gave the board up.",
        mappings=HEALTH,
    )
    in_steps = ' GROUP BY time($__interval), "board" fill(none)'
    for title, field, unit, about in (
        ("Temperature", "temperature_c", "celsius", "The hottest thermal zone at the start of each boot."),
        (
            "Bus clock",
            "ios.actual_clock_hz",
            "hertz",
            "The actual clock of the card's bus; a step down explains a slower card.",
        ),
    ):
        page.graph(
            title,
            [
                lines(
                    f'SELECT max("{field}") FROM "boot" ' + where(here, '"card" =~ /^$card$/') + in_steps,
                    "$tag_board",
                )
            ],
            empty=f"no board told its {title.lower()} in this time",
            about=about,
            defaults={"unit": unit},
            width=12,
            height=8,
        )
    page.graph(
        "Life time used (A)",
        [lines('SELECT max("ext_csd.life_time_a") * 10 FROM "boot" ' + where(here, '"card" =~ /^$card$/') + in_steps,
               "$tag_board")],
        empty="no card in this time tells its life time (SD cards do not)",
        about="Upper end of the estimate: 10 means that at most 10 % are used.",
        defaults={"unit": "percent", "min": 0, "max": 110, "thresholds": thresholds(GREEN, (80, YELLOW), (100, RED))},
        width=12,
        height=8,
    )  # fmt: skip
    page.graph(
        "MMC errors and other events",
        [
            lines(
                'SELECT sum("events") FROM "boot" '
                + where(here)
                + ' GROUP BY time(1d, 12h), "board" fill(none)',
                "$tag_board",
            )
        ],
        empty="no boot in this time",
        about="Errors, recoveries, hangs and panics of each day.",
        defaults={"unit": "none"},
        style="bars",
        width=12,
        height=8,
    )
    page.rows(
        "Boots void or failed",
        'SELECT "board", "variant", "status", "reason", "run" FROM "boot" '
        + where(here, "\"status\" <> 'ok'"),
        empty="every boot of this time was good",
        about="The newest first.",
        overrides=[by_name("status", mappings=STATUS, custom_cellOptions=COLOURED)],
        height=8,
    )
    about = "Health, clock, temperature, life time and failures of every board."
    variables = [datasource(), tag("board", "Board", "boot"), tag("card", "Card", "boot", here)]
    return dashboard("farm-boards", "farm: Boards", about, "now-7d", page, variables, [])


def files() -> dict[str, str]:
    """File names and contents of all dashboards."""
    made = {"nightly": nightly(), "compare": compare(), "trend": trend(), "boards": boards()}
    return {
        f"{name}.json": json.dumps(one, indent=2, ensure_ascii=False) + "\n" for name, one in made.items()
    }


def main() -> None:
    """Write them beside this file."""
    folder = Path(__file__).parent / "dashboards"
    folder.mkdir(exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
