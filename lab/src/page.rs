//! Implements `refdb-lab report`: one HTML page from histories, which needs no network and no script. This file
//! combines [`history`] (lines to series), [`plot`] (series to SVG) and [`table`].

pub mod history;
pub mod plot;
pub mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use history::{Line, Series, read, series};

use crate::options::ReportOptions;

/// Series that were measured with another program, for comparison with ours.
#[derive(Debug)]
pub struct Beside {
    /// The name that readers know, such as `git 2.55`.
    pub name: String,
    /// The kind of program: `peer` or `floor`.
    pub kind: &'static str,
    /// The series.
    pub series: Vec<Series>,
}

/// Writes the page that the options request.
pub fn run(options: &ReportOptions, out: &mut impl Write) -> Result<()> {
    let ours = series(&lines(&options.histories)?);
    ensure!(!ours.is_empty(), "there is no comparison in the histories, so there is nothing to show");
    let mut beside = Vec::new();
    for (kind, pairs) in [("peer", &options.peer), ("floor", &options.floor)] {
        for pair in pairs.chunks_exact(2) {
            let series = series(&lines(&[PathBuf::from(&pair[1])])?);
            beside.push(Beside { name: pair[0].clone(), kind, series });
        }
    }
    let text = page(&ours, &beside);
    match &options.output {
        Some(file) => fs::write(file, text).with_context(|| format!("cannot write '{}'", file.display())),
        None => Ok(out.write_all(text.as_bytes())?),
    }
}

fn lines(files: &[PathBuf]) -> Result<Vec<Line>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(one(file)?);
    }
    all.sort_by_key(|line| line.time);
    Ok(all)
}

fn one(file: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    read(&text).with_context(|| format!("'{}'", file.display()))
}

/// Returns the whole page.
pub fn page(ours: &[Series], beside: &[Beside]) -> String {
    let mut scenarios: BTreeMap<(&str, &str), Vec<&Series>> = BTreeMap::new();
    for series in ours {
        scenarios.entry((&series.scenario, series.judge.words())).or_default().push(series);
    }
    let mut body = String::new();
    for ((scenario, words), all) in &scenarios {
        body += &format!("<section>\n<h2>{}: {}</h2>\n", escaped(scenario), escaped(words));
        for few in all.chunks(plot::SERIES_MAX) {
            body += &plot::figure(few);
        }
        for series in all {
            body += &table::table(series, beside);
        }
        body += "</section>\n";
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>refdb-lab: costs over commits</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Costs over commits</h1>\n\
         <p>Each point is a commit, in the order of measuring. Costs are multiples of the first one, from the ratios \
         of paired runs. A bar is the interval of the ratio to the commit that it was compared with.</p>\n\
         {body}</main>\n</body>\n</html>\n"
    )
}

const STYLE: &str = include_str!("page/style.css");

/// Escapes text for HTML, including attributes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // HTML permits no control characters except a few that mean a space.
            control if control.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}
