//! Implements `refdb-lab report`: one HTML page from histories, which needs no network. Its script adds filters and the
//! selection of commits; without the script, the page shows everything. This file combines [`entry`] (the lines of
//! histories), [`history`] (lines to series), [`summary`] (the tables at the top), [`places`] (the order of the commits
//! in a plot), [`plot`] (series to SVG) and [`table`] (one table for each series).

pub mod entry;
pub mod history;
pub mod places;
pub mod plot;
pub mod summary;
pub mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use entry::{Entry, read};
use history::{Series, series};
use places::Places;

use crate::{options::ReportOptions, shown::is_hidden};

/// Series that were measured with another program, for comparison with ours.
#[derive(Debug)]
pub struct Beside {
    /// The name that readers know, such as `git 2.55`.
    pub name: String,
    /// The kind of program: `peer` for another one with the same purpose, `floor` for one that does only the
    /// unavoidable work.
    pub kind: &'static str,
    /// The series of that program.
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

fn lines(files: &[PathBuf]) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(one(file)?);
    }
    all.sort_by_key(Entry::time);
    Ok(all)
}

fn one(file: &Path) -> Result<Vec<Entry>> {
    ensure!(
        !file.is_dir(),
        "'{0}' is a folder: name the histories in it, which for a watch are '{0}'/*.jsonl",
        file.display()
    );
    let text = fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    read(&text).with_context(|| format!("'{}'", file.display()))
}

/// Returns the whole page.
pub fn page(ours: &[Series], beside: &[Beside]) -> String {
    let mut scenarios: BTreeMap<(&str, &str), Vec<(usize, &Series)>> = BTreeMap::new();
    for (number, series) in ours.iter().enumerate() {
        scenarios.entry((&series.scenario, series.judge.words())).or_default().push((number, series));
    }
    let mut body = summary::differences(ours);
    if ours.len() > 1 {
        body += &summary::overview(ours);
    }
    for ((scenario, words), all) in &scenarios {
        body += &format!("<section>\n<h2>{}: {}</h2>\n", escaped(scenario), escaped(words));
        for few in all.chunks(plot::SERIES_MAX) {
            let (numbers, few): (Vec<usize>, Vec<&Series>) = few.iter().copied().unzip();
            let places = Places::of(&few);
            body += &plot::figure(&few, &numbers, &places);
            for (series, number) in few.iter().zip(numbers) {
                body += &table::table(series, number, &places, beside);
            }
        }
        body += "</section>\n";
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>refdb-lab: costs over commits</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Costs over commits</h1>\n\
         <p>Each point is a commit, in the order of measuring. Costs are multiples of the first one, from the ratios \
         of paired runs. A bar is the interval of the ratio to the commit that it was compared with. Values from other \
         tools were not measured in pairs: their lines are dashed.</p>\n\
         <div id=\"filters\"></div>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

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
            // HTML permits few control characters, and the other hidden ones act on the text around them.
            hidden if is_hidden(hidden) => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}
