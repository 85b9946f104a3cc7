//! Writes the tables at the top of the page: what differs, and a list of all series.

use std::fmt::Write;

use super::{
    escaped,
    history::{Point, Series, Step},
    table::{differing, judged, ratio, said, short},
};
use crate::{compare::Verdict, work::grouped};

/// Number of differences that are shown when the page is opened. The others are one click away.
const SHOWN: usize = 20;

/// Returns the table of what differs: the changes that no second measurement refuted, and then all comparisons with a
/// difference, the most important comparison first.
pub fn differences(all: &[Series]) -> String {
    let mut rows = Vec::new();
    for (number, series) in all.iter().enumerate() {
        for change in series.changes.iter().filter(|change| change.confirmed != Some(false)) {
            rows.push(format!(
                "<tr class=\"change\" data-s=\"{number}\">{}<td>{}</td><td><code>{}</code></td><td></td>\
                 {}<td>{}</td></tr>\n",
                direction(&change.direction),
                change.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
                escaped(short(&change.commit)),
                names(series, number),
                escaped(&said(change))
            ));
        }
    }
    let mut found: Vec<(usize, &Series, &Point, &Step)> = Vec::new();
    for (number, series) in all.iter().enumerate() {
        for point in &series.points {
            let steps = point.steps.iter().filter(|step| step.verdict != Verdict::CannotTell);
            found.extend(steps.map(|step| (number, series, point, step)));
        }
    }
    found.sort_by_key(|(_, _, _, step)| step.importance());
    rows.extend(found.iter().map(|(number, series, point, step)| {
        format!(
            "<tr data-s=\"{number}\">{}<td>{}</td><td><code>{}</code></td><td><code>{}</code></td>{}<td>{}</td></tr>\n",
            judged(step),
            ratio(step),
            escaped(short(&point.commit)),
            escaped(short(&step.before)),
            names(series, *number),
            step.work.as_ref().map_or(String::new(), |work| escaped(&differing(work)))
        )
    }));
    if rows.is_empty() {
        return "<h2>What differs</h2>\n<p>No comparison found a difference.</p>\n".to_owned();
    }
    let head = "<thead><tr><th>verdict</th><th>ratio</th><th>commit</th><th>to</th><th>scenario</th><th>parameters</th>\
                <th>work</th></tr></thead>";
    let table = |rows: &[String]| {
        format!(
            "<div class=\"table\"><table class=\"differences\">\n{head}\n<tbody>\n{}</tbody>\n</table></div>\n",
            rows.concat()
        )
    };
    let (first, more) = rows.split_at(rows.len().min(SHOWN));
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("<details>\n<summary>{} more</summary>\n{}</details>\n", grouped(more.len() as u64), table(more))
    };
    format!("<h2>What differs</h2>\n{}{more}", table(first))
}

/// Returns the cell with the direction of a change.
fn direction(name: &str) -> String {
    let class = match name {
        "worse" | "better" => format!(" class=\"{name}\""),
        _ => String::new(),
    };
    format!("<td{class}>{}</td>", escaped(name))
}

/// Returns the cells with the scenario, as a link to the table, and the parameters.
fn names(series: &Series, number: usize) -> String {
    let (scenario, parameters) = (escaped(&series.scenario), escaped(&series.parameters));
    format!("<td><a href=\"#s{number}\">{scenario}</a></td><td>{parameters}</td>")
}

/// Returns the list of all series with links to their tables. Filters take names and values from its rows.
pub fn overview(all: &[Series]) -> String {
    let mut rows = String::new();
    for (number, series) in all.iter().enumerate() {
        let steps = || series.points.iter().flat_map(|point| &point.steps);
        let count = |verdict: Verdict| steps().filter(|step| step.verdict == verdict).count();
        let level = series.points.last().map_or(1.0, |last| last.level);
        let values = serde_json::to_string(&series.values).unwrap_or_default();
        _ = writeln!(
            rows,
            "<tr data-s=\"{number}\" data-scenario=\"{}\" data-values=\"{}\">{}<td>{}</td><td>{}</td>\
             <td>{level:.3}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&series.scenario),
            escaped(&values),
            names(series, number),
            series.judge.name(),
            grouped(series.points.len() as u64),
            series.changes.len(),
            count(Verdict::Worse),
            count(Verdict::Better)
        );
    }
    format!(
        "<details open>\n<summary>All series</summary>\n<div class=\"table\"><table id=\"series\">\n<thead><tr>\
         <th>scenario</th><th>parameters</th><th>measure</th><th>commits</th><th>level now</th><th>changes</th>\
         <th>worse</th><th>better</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</details>\n"
    )
}
