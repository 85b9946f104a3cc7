//! Tests `refdb-lab import` with files as other tools write them, up to the page, and with damaged ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use common::finish;
use refdb_lab::{
    coin::Coin,
    import::{About, parse},
    measure::Measure,
    options::Tool,
    page::entry::Imported,
};
use refdb_testkit::rounds;
use tempfile::TempDir;

/// As `hyperfine --export-json` of version 1.18 writes it, with `--parameter-list commit`; but the second result has
/// neither a median nor exit codes.
const HYPERFINE: &str = r#"{ "results": [
  { "command": "rg --version 14.1.0", "mean": 0.0031, "stddev": 0.0002, "median": 0.003, "user": 0.001, "system": 0.001,
    "min": 0.0028, "max": 0.0035, "times": [0.0028, 0.003, 0.0035], "exit_codes": [0, 0, 0],
    "parameters": { "commit": "14.1.0" } },
  { "command": "rg --version 14.1.1", "mean": 0.0041, "stddev": null, "user": 0.001, "system": 0.001,
    "min": 0.004, "max": 0.0042, "times": [0.004, 0.0042], "parameters": { "commit": "14.1.1" } } ] }"#;

/// Bencher Metric Format.
const METRICS: &str = r#"{ "push": { "latency": { "value": 1500000.0, "lower_value": 1.0, "upper_value": 2e6 },
  "throughput": { "value": 12.5 } } }"#;

/// Parts of what `bencher perf` prints.
const PERF: &str = r#"{ "project": { "slug": "x" }, "results": [ {
  "branch": { "name": "main" }, "testbed": { "name": "ubuntu", "slug": "ubuntu" },
  "benchmark": { "name": "push", "slug": "push" }, "measure": { "name": "Latency", "slug": "latency" },
  "metrics": [
    { "start_time": "2024-01-02T03:04:05Z", "version": { "number": 3, "hash": "aaaa" }, "metric": { "value": 2e9 } },
    { "start_time": "2024-01-03T03:04:05Z", "version": { "number": 4, "hash": null }, "metric": { "value": 3e9 } },
    { "start_time": "2024-01-04T03:04:05Z", "version": null, "metric": null } ] } ] }"#;

/// Parts of Criterion 0.5's `estimates.json`.
const ESTIMATES: &str = r#"{ "mean": { "confidence_interval": { "confidence_level": 0.95, "lower_bound": 1.0,
  "upper_bound": 2.0 }, "point_estimate": 1250.0, "standard_error": 1.0 },
  "median": { "point_estimate": 1200.0 }, "median_abs_dev": { "point_estimate": 1.0 }, "slope": null,
  "std_dev": { "point_estimate": 3.0 } }"#;

const OTAVA: &str = "time,commit,benchmark,wall,user\n2023.11.14 22:13:20 +0000,aaa,\"push, many\",0.5,0.1\n\
                     2023.11.15 22:13:20 +0000,bbb,\"push, many\",0.6,\n";

/// Each kind of file, with a name that it may have.
const FILES: [(Tool, &str, &str); 5] = [
    (Tool::Hyperfine, "result.json", HYPERFINE),
    (Tool::Bencher, "v1.json", METRICS),
    (Tool::Bencher, "perf.json", PERF),
    (Tool::Criterion, "criterion/sort/1000/new/estimates.json", ESTIMATES),
    (Tool::Otava, "table.csv", OTAVA),
];

fn imported(tool: Tool, path: &str, text: &str) -> Vec<Imported> {
    parse(tool, text, About { path: Path::new(path), modified: 7 }, None).unwrap()
}

#[test]
fn each_tool_gives_its_values_in_seconds_with_commits_and_names() {
    let facts = |(tool, path, text): (Tool, &str, &str)| -> Vec<(String, String, Measure, f64, u64)> {
        let fact = |one: Imported| (one.scenario, one.commit, one.judge, one.value, one.time);
        imported(tool, path, text).into_iter().map(fact).collect()
    };
    let fact = |scenario: &str, commit: &str, judge: Measure, value: f64, time: u64| {
        (scenario.to_owned(), commit.to_owned(), judge, value, time)
    };
    let [hyperfine, metrics, perf, criterion, otava] = FILES.map(facts);
    assert_eq!(hyperfine[0], fact("rg --version COMMIT", "14.1.0", Measure::Wall, 0.003, 7));
    assert_eq!(hyperfine[1], fact("rg --version COMMIT", "14.1.1", Measure::Wall, 0.0041, 7));
    assert_eq!(metrics[0], fact("push", "v1", Measure::Wall, 0.0015, 7));
    assert_eq!(metrics[1], fact("push: throughput", "v1", Measure::Reported, 12.5, 7));
    assert_eq!(perf[0], fact("push", "aaaa", Measure::Wall, 2.0, 1_704_164_645));
    assert_eq!((perf[1].1.as_str(), perf.len()), ("version 4", 2));
    assert_eq!(criterion, [fact("sort/1000", "new", Measure::Wall, 1200.0 * 1e-9, 7)]);
    assert_eq!(otava[0], fact("push, many", "aaa", Measure::Wall, 0.5, 1_700_000_000));
    assert_eq!(otava.len(), 3, "an empty cell is no value");
    let named = parse(
        Tool::Criterion,
        ESTIMATES,
        About { path: Path::new("x/base/estimates.json"), modified: 7 },
        Some(r#"{ "group_id": "sort", "full_id": "sort/big", "title": "sort" }"#),
    );
    assert_eq!(named.unwrap()[0].scenario, "sort/big");
}

/// Writes a file of this name.
fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let file = folder.path().join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    file
}

fn lab(folder: &TempDir, tool: &str, files: &[PathBuf]) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.args(["import", "--from", tool]).args(files).arg("--history").arg(folder.path().join("history.jsonl"));
    finish(&mut lab)
}

#[test]
fn imported_values_are_on_the_page_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    for (tool, name, text) in FILES {
        let output = lab(&folder, tool.name(), &[write(&folder, name, text)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let history = folder.path().join("history.jsonl");
    let output = finish(Command::new(env!("CARGO_BIN_EXE_refdb-lab")).arg("report").arg(&history));
    let page = String::from_utf8(output.stdout).unwrap();
    for tool in ["hyperfine", "bencher", "criterion", "otava"] {
        assert!(page.contains(&format!("imported from {tool}")), "{tool}: {page}");
    }
    assert!(page.contains("<i class=\"s0 imported\"></i>"), "{page}");
    assert!(page.contains("2 values, not measured in pairs</summary>"), "{page}");
    assert!(page.contains("<td>4.10 ms</td><td>1.367</td>"), "{page}");
}

#[test]
fn a_damaged_file_is_refused_with_its_name_and_place_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tool: &str, text: &[u8]| {
        let whole = write(&folder, "whole.json", if tool == "bencher" { METRICS } else { HYPERFINE });
        let broken = folder.path().join("broken");
        fs::write(&broken, text).unwrap();
        let output = lab(&folder, tool, &[whole, broken]);
        assert_eq!(output.status.code(), Some(1));
        assert!(!folder.path().join("history.jsonl").exists(), "nothing is written");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused("hyperfine", b"{ \"results\": [\n  { \"command\": 5 } ] }");
    assert!(said.contains("broken': invalid type: integer `5`, expected a string at line 2 column "), "{said}");
    let said = refused("bencher", b"{ \"push\": {\n \"latency\": { \"value\": \"much\" } } }");
    assert!(said.contains("broken': invalid type: string \"much\", expected f64 at line 2 column "), "{said}");
    let said = refused("hyperfine", b"{ \"results\": [] }");
    assert!(said.contains("there are no values in it"), "{said}");
    let said = refused("hyperfine", b"{ \"results\": [\xff");
    assert!(said.contains("byte 14 is no UTF-8"), "{said}");
    let said = refused("hyperfine", b"{ \"results\": [ { \"command\": \"x\", \"mean\": -1.0 } ] }");
    assert!(said.contains("the value of 'x' is -1"), "{said}");
    let output = lab(&folder, "otava", &[write(&folder, "bad.csv", "time,wall\n1,2\nx,3\n")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("bad.csv': line 3: 'x' is no time"), "{said}");
}

/// Whatever a file contains, it is refused, or its values are numbers with names of bounded length.
#[test]
fn no_damage_makes_the_parsers_panic_or_let_nonsense_through() {
    let mut luck = Coin::new(38);
    for round in 0..rounds(3000, 100_000) {
        let (tool, path, text) = FILES[round % FILES.len()];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..1 + luck.bits() % 4 {
            let place = luck.bits() as usize % bytes.len();
            match luck.bits() % 4 {
                0 => bytes.truncate(place.max(1)),
                1 => bytes[place] = luck.bits() as u8,
                2 => bytes.insert(place, *b"\"{}[],:.-9e\n".get(luck.bits() as usize % 12).unwrap()),
                _ => drop(bytes.remove(place)),
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        let damaged = String::from_utf8_lossy(&bytes);
        let Ok(found) = parse(tool, &damaged, About { path: Path::new(path), modified: 7 }, Some(&damaged)) else {
            continue;
        };
        let sound = |one: &Imported| one.value.is_finite() && one.value >= 0.0 && one.scenario.len() <= 1000;
        assert!(!found.is_empty() && found.iter().all(sound), "{damaged}: {found:?}");
    }
}
