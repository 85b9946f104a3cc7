//! Draws a plot of some series as inline SVG. Positions along the width are in percent, so that the plot fits any
//! screen while text keeps its size.

use std::fmt::Write;

use super::{
    escaped,
    history::{Point, Series},
    table::{short, verdict},
};

/// Maximum number of series in one plot. The style sheet has this many colours.
pub const SERIES_MAX: usize = 6;

/// The height in pixels, which the style sheet repeats.
const HEIGHT: f64 = 220.0;

/// Returns the figure of a few series of one scenario.
pub fn figure(few: &[&Series]) -> String {
    let commits = commits(few);
    let scale = Scale::of(few);
    let mut svg = String::new();
    for tick in scale.ticks() {
        let y = scale.y(tick);
        _ = writeln!(svg, "<line class=\"grid\" x1=\"0%\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        _ = writeln!(svg, "<text x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{tick:.*}</text>", y + 4.0, scale.digits());
    }
    let ends = [(commits.first(), "start", "0%"), (commits.last().filter(|_| commits.len() > 1), "end", "100%")];
    for (commit, anchor, x) in ends {
        if let Some(commit) = commit {
            let name = escaped(short(commit));
            _ = writeln!(svg, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>", HEIGHT + 18.0);
        }
    }
    for (number, series) in few.iter().enumerate() {
        svg += &line(series, number, &commits, &scale);
    }
    let legend: String = few
        .iter()
        .enumerate()
        .map(|(number, series)| format!("<li><i class=\"s{number}\"></i>{}</li>", escaped(name(series))))
        .collect();
    let label = format!("Costs of {} as multiples of the first commit's", escaped(&few[0].scenario));
    format!(
        "<figure>\n<ul class=\"legend\">{legend}</ul>\n<div class=\"plot\"><svg role=\"img\" \
         aria-label=\"{label}\">\n{svg}</svg></div>\n</figure>\n"
    )
}

/// Returns the name of a series in the legend.
fn name(series: &Series) -> &str {
    if series.parameters.is_empty() { &series.scenario } else { &series.parameters }
}

/// Returns all commits of the series, in the order in which they were measured.
fn commits<'a>(few: &[&'a Series]) -> Vec<&'a str> {
    let mut all: Vec<&Point> = few.iter().flat_map(|series| &series.points).collect();
    all.sort_by_key(|point| point.time);
    let mut names: Vec<&str> = Vec::new();
    // The commits of the longest series keep its order, because the times change if a commit is measured again.
    for point in few.iter().max_by_key(|series| series.points.len()).iter().flat_map(|series| &series.points) {
        names.push(&point.commit);
    }
    for point in all {
        if !names.contains(&point.commit.as_str()) {
            names.push(&point.commit);
        }
    }
    names
}

fn line(series: &Series, number: usize, commits: &[&str], scale: &Scale) -> String {
    let place = |point: &Point| {
        let index = commits.iter().position(|commit| *commit == point.commit).unwrap_or_default();
        if commits.len() < 2 { 0.0 } else { 100.0 * index as f64 / (commits.len() - 1) as f64 }
    };
    let mut points: Vec<(f64, &Point)> = series.points.iter().map(|point| (place(point), point)).collect();
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut svg = format!("<g class=\"s{number}\">\n");
    for pair in points.windows(2) {
        let [(x1, from), (x2, to)] = [pair[0], pair[1]];
        let (y1, y2) = (scale.y(from.level), scale.y(to.level));
        _ = writeln!(svg, "<line class=\"line\" x1=\"{x1:.3}%\" y1=\"{y1:.1}\" x2=\"{x2:.3}%\" y2=\"{y2:.1}\"/>");
    }
    for (x, point) in points {
        let y = scale.y(point.level);
        if let Some((low, high)) = bar(point) {
            let (y1, y2) = (scale.y(low), scale.y(high));
            _ = writeln!(svg, "<line class=\"bar\" x1=\"{x:.3}%\" y1=\"{y1:.1}\" x2=\"{x:.3}%\" y2=\"{y2:.1}\"/>");
        }
        let said = point.step.as_ref().map_or(String::new(), |step| format!(": {}", verdict(step.verdict)));
        let title = escaped(&format!("{} {}: {:.3}{said}", short(&point.commit), point.revision, point.level));
        _ = writeln!(
            svg,
            "<circle class=\"point\" cx=\"{x:.3}%\" cy=\"{y:.1}\" r=\"5\"><title>{title}</title></circle>"
        );
    }
    svg + "</g>\n"
}

/// Returns the interval of the level of a point, if both ends are known.
fn bar(point: &Point) -> Option<(f64, f64)> {
    let step = point.step.as_ref()?;
    let of_one = point.level / step.ratio;
    Some((step.low? * of_one, step.high? * of_one)).filter(|(low, high)| low.is_finite() && high.is_finite())
}

/// The scale that maps levels to pixels.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Returns a scale for all points with their bars, and some margin. Bars that exceed the margin are cut off, so
    /// that they do not press the points together.
    fn of(few: &[&Series]) -> Scale {
        let levels =
            || few.iter().flat_map(|series| &series.points).map(|point| point.level).filter(|level| level.is_finite());
        let (low, high) = (levels().fold(1.0, f64::min), levels().fold(1.0, f64::max));
        let air = (high - low).mul_add(0.25, 0.02);
        Scale { low: (low - air).max(0.0), high: high + air }
    }

    fn y(&self, level: f64) -> f64 {
        let level = if level.is_finite() { level.clamp(self.low, self.high) } else { self.high };
        HEIGHT * (self.high - level) / (self.high - self.low)
    }

    /// Returns the distance between ticks: 1, 2 or 5 times a power of ten, for four ticks or a few more.
    fn step(&self) -> f64 {
        let wanted = (self.high - self.low) / 4.0;
        let power = 10_f64.powf(wanted.log10().floor());
        [5.0, 2.0, 1.0].map(|part| part * power).into_iter().find(|step| *step <= wanted).unwrap_or(power)
    }

    fn ticks(&self) -> Vec<f64> {
        let step = self.step();
        let first = (self.low / step).ceil();
        (0..20).map(|number| (first + f64::from(number)) * step).take_while(|tick| *tick <= self.high).collect()
    }

    /// Returns the number of decimals that distinguish two ticks.
    fn digits(&self) -> usize {
        (-self.step().log10().floor()).clamp(0.0, 9.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (low, high) in [(0.98, 1.02), (0.0, 12.0), (0.5, 3.2), (0.99, 1400.0)] {
            let scale = Scale { low, high };
            let ticks = scale.ticks();
            assert!((3..=12).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| *tick >= low && *tick <= high));
        }
        let scale = Scale { low: 0.95, high: 1.15 };
        assert_eq!((scale.digits(), scale.y(1.15), scale.y(0.95), scale.y(f64::INFINITY)), (2, 0.0, HEIGHT, 0.0));
    }
}
