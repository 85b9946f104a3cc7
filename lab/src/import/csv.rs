//! Parses a CSV for Apache Otava: a header, a column `time`, and columns with numbers and with attributes.

use anyhow::{Context, Result, ensure};

use super::{measure, time};
use crate::{measure::Measure, page::entry::Imported, scenario::Values};

/// Maximum number of columns.
const COLUMNS_MAX: usize = 1000;

/// Returns the values of a table. The column `time` is required, and `commit` and `benchmark` name the commit and the
/// scenario. Any other column is a metric if it has only numbers, and else a parameter.
///
/// # Errors
///
/// Fails if the text is no such table. The error names the line that is wrong, or says that there is no header.
pub fn otava(text: &str) -> Result<Vec<Imported>> {
    let mut records = records(text).into_iter();
    let (_, header) = records.next().context("there is no header")??;
    ensure!(header.len() <= COLUMNS_MAX, "line 1: it has more than {COLUMNS_MAX} columns");
    let column = |name: &str| header.iter().position(|column| column == name);
    let time_at = column("time").context("line 1: there is no column 'time'")?;
    let (commit_at, scenario_at) = (column("commit"), column("benchmark"));
    let records = records.collect::<Result<Vec<_>>>()?;
    let named = [Some(time_at), commit_at, scenario_at];
    let free: Vec<usize> = (0..header.len()).filter(|at| !named.contains(&Some(*at))).collect();
    // A column is a metric if it has at least one number, and nothing else but empty cells, which are missing numbers.
    // Text, a negative number or an infinite one makes it an attribute.
    let is_metric = |at: &usize| {
        let cells = || records.iter().filter_map(|(_, cells)| cells.get(*at)).filter(|cell| !cell.is_empty());
        cells().next().is_some() && cells().all(|cell| number(cell).is_some())
    };
    let (metrics, attributes): (Vec<usize>, Vec<usize>) = free.into_iter().partition(is_metric);
    let mut found = Vec::new();
    for (line, cells) in &records {
        ensure!(
            cells.len() == header.len(),
            "line {line}: it has {} cells, and the header {}",
            cells.len(),
            header.len()
        );
        let time =
            time::parse(&cells[time_at]).with_context(|| format!("line {line}: '{}' is no time", cells[time_at]))?;
        let commit = commit_at.map_or_else(|| cells[time_at].clone(), |at| cells[at].clone());
        let parameters: Values = attributes.iter().map(|at| (header[*at].clone(), cells[*at].clone())).collect();
        for at in &metrics {
            let Some(value) = number(&cells[*at]) else { continue };
            let known = measure(&header[*at]);
            let benchmark = scenario_at.map_or("", |at| cells[at].as_str());
            let named = known.is_some() && !benchmark.is_empty();
            found.push(Imported {
                tool: "otava".to_owned(),
                time,
                scenario: match benchmark {
                    benchmark if named => benchmark.to_owned(),
                    "" => header[*at].clone(),
                    benchmark => format!("{benchmark}: {}", header[*at]),
                },
                parameters: parameters.clone(),
                judge: known.map_or(Measure::Reported, |(measure, _)| measure),
                revision: commit.clone(),
                commit: commit.clone(),
                value: value * known.map_or(1.0, |(_, scale)| scale),
                runs: 0,
            });
        }
    }
    Ok(found)
}

fn number(cell: &str) -> Option<f64> {
    cell.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Returns the records of a CSV (RFC 4180), each with the number of the line on which it begins. The first malformed
/// record is an error, and the last item. Records with only empty cells, such as empty lines, are skipped.
fn records(text: &str) -> Vec<Result<(usize, Vec<String>)>> {
    let (mut all, mut line, mut rest) = (Vec::new(), 1, text);
    while !rest.is_empty() {
        let begins = line;
        let (cells, after) = match record(rest) {
            Ok(read) => read,
            Err(why) => {
                all.push(Err(why.context(format!("line {begins}"))));
                break;
            }
        };
        line += rest[..rest.len() - after.len()].matches('\n').count();
        rest = after;
        if cells.iter().any(|cell| !cell.is_empty()) {
            all.push(Ok((begins, cells)));
        }
    }
    all
}

/// Returns the cells of the first record, and the text after it.
fn record(text: &str) -> Result<(Vec<String>, &str)> {
    let (mut cells, mut rest) = (Vec::new(), text);
    loop {
        let cell;
        (cell, rest) = if let Some(quoted) = rest.strip_prefix('"') { quoted_cell(quoted)? } else { plain_cell(rest) };
        cells.push(cell);
        ensure!(cells.len() <= COLUMNS_MAX, "it has more than {COLUMNS_MAX} cells");
        if let Some(more) = rest.strip_prefix(',') {
            rest = more;
        } else if let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            return Ok((cells, after));
        } else if rest.is_empty() {
            return Ok((cells, rest));
        } else {
            anyhow::bail!("a cell goes on after its quotation mark");
        }
    }
}

fn plain_cell(text: &str) -> (String, &str) {
    let end = text.find([',', '\n']).unwrap_or(text.len());
    let cell = &text[..end];
    // The carriage return belongs to the end of the line.
    match cell.strip_suffix('\r').filter(|_| text[end..].starts_with('\n')) {
        Some(cell) => (cell.to_owned(), &text[end - 1..]),
        None => (cell.to_owned(), &text[end..]),
    }
}

fn quoted_cell(text: &str) -> Result<(String, &str)> {
    let (mut cell, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"').context("a quotation mark is never closed")?;
        cell += part;
        match after.strip_prefix('"') {
            Some(more) => (cell, rest) = (cell + "\"", more),
            None => return Ok((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_quoted_cells_and_all_ends_of_lines() {
        let text = "a,\"b, \"\"c\"\"\nd\",e\r\n\n1,2,\r\n\"x\",y,z";
        let read: Vec<(usize, Vec<String>)> = records(text).into_iter().map(Result::unwrap).collect();
        let cells = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let wanted = [(1, cells(["a", "b, \"c\"\nd", "e"])), (4, cells(["1", "2", ""])), (5, cells(["x", "y", "z"]))];
        assert_eq!(read, wanted);
    }

    #[test]
    fn metrics_are_columns_of_numbers_and_the_others_are_parameters() {
        let text =
            "time,commit,benchmark,os,wall,throughput\n1700000000,abc,push,linux,0.5,7\n1700000001,def,push,linux,,8\n";
        let found = otava(text).unwrap();
        let names: Vec<(&str, &str, Measure, f64)> =
            found.iter().map(|one| (one.scenario.as_str(), one.commit.as_str(), one.judge, one.value)).collect();
        assert_eq!(
            names,
            [
                ("push", "abc", Measure::Wall, 0.5),
                ("push: throughput", "abc", Measure::Reported, 7.0),
                ("push: throughput", "def", Measure::Reported, 8.0),
            ]
        );
        assert_eq!(found[0].parameters, Values::from([("os".to_owned(), "linux".to_owned())]));
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let message = |text: &str| format!("{:#}", otava(text).unwrap_err());
        assert_eq!(message(""), "there is no header");
        assert_eq!(message("commit,wall\n"), "line 1: there is no column 'time'");
        assert_eq!(message("time,wall\n1,2\n\nx,3\n"), "line 4: 'x' is no time");
        assert_eq!(message("time,wall\n1,2,3\n"), "line 2: it has 3 cells, and the header 2");
        assert_eq!(message("time,wall\n1,\"2\n"), "line 2: a quotation mark is never closed");
        assert_eq!(message("time,wall\n1,\"2\"3\n"), "line 2: a cell goes on after its quotation mark");
    }
}
