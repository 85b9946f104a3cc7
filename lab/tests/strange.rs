//! Tests the lab with strange subjects and values, remotes that are away, and files and names that are the wrong ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{fs, path::Path, process::Command};

use common::{
    Synthetic, finish,
    watched::{COST, Watched, said},
};
use serde_json::Value;

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_refdb-lab"))
}

/// Runs the lab, which must fail. Returns what it says.
fn complaint(lab: &mut Command) -> String {
    let output = finish(lab);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn acts_on_a_terminal(text: &str) -> bool {
    text.contains('\u{202e}') || text.chars().any(|letter| letter.is_control() && letter != '\n')
}

/// Returns the path and the JSON of the only alert of a history.
fn alert(history: &Path) -> (std::path::PathBuf, Value) {
    let entries = fs::read_dir(history.join("alerts")).unwrap().map(|entry| entry.unwrap().path());
    let all: Vec<_> = entries.filter(|path| path.extension().unwrap() == "json").collect();
    let [path] = all.as_slice() else { panic!("{all:?}") };
    (path.clone(), serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
}

#[test]
fn subjects_and_values_are_only_text_on_a_terminal_and_in_markdown() {
    let more = "judge = 'reported'\n[parameters]\nkind = [\"*\\u001b[31m\\n# no\"]";
    let planted = Synthetic::new(COST, more);
    let first = planted.commit("cost", "1000");
    let watched = Watched::of(planted, first.clone());
    watched.idle(1);
    let subject = "<b>`code`</b> [a](b) \u{1b}[2J\u{7}\u{202e} snake_case";
    fs::write(watched.planted.repository().join("cost"), "1100").unwrap();
    let slow = watched.planted.commit_all(subject);
    let output = finish(&mut watched.command(&[]));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(!acts_on_a_terminal(&said(&output)), "{:?}", said(&output));
    let (path, json) = alert(&watched.history());
    assert_eq!(json["commits"][0]["subject"], subject, "JSON is exact");
    assert_eq!(json["parameters"]["kind"], "*\u{1b}[31m\n# no", "JSON is exact");
    let markdown = fs::read_to_string(path.with_extension("md")).unwrap();
    assert!(!acts_on_a_terminal(&markdown), "{markdown:?}");
    let safe = r"\<b\>\`code\`\</b\> \[a\](b) \\u{1b}\[2J\\u{7}\\u{202e} snake_case";
    let job = r"planted (kind = \*\\u{1b}\[31m\\n\# no)";
    let short = &slow[..12];
    assert!(markdown.starts_with(&format!("# {job} costs more since {short} ({safe}): 1.100 times")), "{markdown}");
    assert!(markdown.contains(&format!("\n{slow} {safe}\n")), "{markdown}");
    assert_eq!(markdown.lines().filter(|line| line.starts_with('#')).count(), 1, "{markdown}");
    assert_eq!(fs::read_to_string(watched.calls().with_extension("text")).unwrap(), markdown, "the command reads it");
    let entries = fs::read_dir(watched.history()).unwrap().map(|entry| entry.unwrap().path());
    let histories = entries.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let page = finish(lab().arg("report").args(histories));
    assert!(said(&page).contains("snake_case") && !acts_on_a_terminal(&said(&page)), "{}", said(&page));
    let bisected = finish(&mut watched.planted.command("bisect", &format!("{first},{slow}"), &[]));
    assert!(bisected.status.success() && !acts_on_a_terminal(&said(&bisected)), "{:?}", said(&bisected));
    let compared = watched.planted.said("run", &format!("{first},{slow}"), &[]);
    assert!(compared.contains(r"planted (kind = *\u{1b}[31m\n# no, revision = "), "{compared:?}");
}

#[test]
fn a_remote_that_is_away_does_not_stop_a_watch() {
    let watched = Watched::new();
    watched.planted.git(&["remote", "add", "away", "/nonexistent/away"]);
    let commits = watched.idle(2);
    let output = finish(&mut watched.command(&["--fetch"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("the watch goes on with the commits at hand: cannot fetch: "), "{}", said(&output));
    assert_eq!(watched.measured(), commits);
}

#[test]
fn nothing_else_writes_into_the_history_of_a_watch() {
    let watched = Watched::new();
    watched.idle(1);
    watched.watch(0, &[]);
    let history = watched.history().join("planted.jsonl");
    let before = fs::read(&history).unwrap();
    let table = watched.history().join("table.csv");
    fs::write(&table, "time,commit,benchmark,wall\n1,a,b,2\n").unwrap();
    let import = complaint(lab().args(["import", "--from", "otava"]).arg(&table).arg("--history").arg(&history));
    let other = watched.history().join("others.jsonl");
    let expected = format!("which only that watch may write: name another file, such as '{}'", other.display());
    assert!(import.contains(&expected), "{import}");
    let mut run = watched.planted.command("run", "HEAD~1,HEAD", &["--history", history.to_str().unwrap()]);
    let run = complaint(&mut run);
    assert!(run.contains(&expected) && !run.contains("setting up"), "it says so before it measures: {run}");
    assert_eq!(fs::read(&history).unwrap(), before);
    let imported = finish(lab().args(["import", "--from", "otava"]).arg(&table).arg("--history").arg(&other));
    assert!(imported.status.success(), "{}", said(&imported));
    assert_eq!(watched.watch(0, &[]), "", "the watch goes on");
}

#[test]
fn a_watch_goes_on_only_beside_its_reference_by_whatever_name() {
    let mut watched = Watched::new();
    watched.idle(1);
    watched.watch(0, &[]);
    watched.first = "HEAD~1".to_owned();
    assert_eq!(watched.watch(0, &[]), "", "it is the same commit");
    watched.first = "HEAD".to_owned();
    let said = complaint(&mut watched.command(&[]));
    assert!(said.contains("goes on only as it was begun") && said.contains("its reference is "), "{said}");
}

#[test]
fn an_alert_can_be_repeated_from_any_folder() {
    let planted = Synthetic::new(COST, "judge = 'reported'\n[parameters]\nkind = ['b,\\c']");
    let first = planted.commit("cost", "1000");
    let watched = Watched::of(planted, first);
    watched.planted.commit("cost", "1100");
    let folder = watched.planted.cache().parent().unwrap().to_owned();
    fs::create_dir(folder.join("o d")).unwrap();
    fs::rename(watched.planted.scenario(), folder.join("o d/planted.toml")).unwrap();
    let mut watch = lab();
    watch.args(["watch", "repository", "--branch", "main", "--reference", &watched.first, "--history", "history"]);
    watch.args(["--scenario", "o d/planted.toml", "--cache"]).arg(watched.planted.cache());
    let output = finish(watch.arg("--place").arg(watched.place.path()).current_dir(&folder));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let (_, json) = alert(&watched.history());
    let repeat = json["repeat"].as_str().unwrap().strip_prefix("refdb-lab ").unwrap();
    let start = format!("run '{0}/o d/planted.toml' --revisions {0}/repository ", folder.display());
    assert!(repeat.starts_with(&start), "{repeat}");
    let again =
        format!("'{}' {repeat} --cache '{}'", env!("CARGO_BIN_EXE_refdb-lab"), watched.planted.cache().display());
    let again = finish(Command::new("sh").args(["-c", &again]).current_dir("/"));
    assert!(said(&again).contains("takes 1.100 times the reported cost"), "{}", said(&again));
    assert!(said(&again).contains("Benchmark 1: planted (kind = b,\\c, revision = "), "{}", said(&again));
    assert_eq!(said(&again).matches("Benchmark 1: ").count(), 1, "{}", said(&again));
}

#[test]
fn a_wrong_file_or_name_is_called_what_it_is() {
    let watched = Watched::new();
    let history = watched.history();
    let revisions = watched.planted.complaint("run", "nope,HEAD", &[]);
    let repository = fs::canonicalize(watched.planted.repository()).unwrap();
    assert_eq!(revisions, format!("refdb-lab: 'nope' names no commit of '{}'", repository.display()));
    watched.watch(0, &[]);
    let report = complaint(lab().arg("report").arg(&history));
    assert!(report.contains("' is a folder: name the histories in it, which for a watch are '"), "{report}");
    fs::write(watched.planted.scenario(), b"build = 'true'\ncommand = '\xff'\n").unwrap();
    let scenario = watched.planted.complaint("run", "HEAD,HEAD", &[]);
    assert!(scenario.ends_with("planted.toml': byte 26 is no UTF-8"), "{scenario}");
}

#[test]
fn a_range_of_a_search_is_in_the_order_of_history() {
    let planted = Synthetic::new(COST, "judge = 'reported'");
    let good = planted.commit("cost", "1000");
    let mut range: Vec<String> = vec![planted.commit("broken", "")];
    range.extend((0..4).map(|number| planted.commit("other", &number.to_string())));
    fs::write(planted.repository().join("cost"), "1100").unwrap();
    fs::remove_file(planted.repository().join("broken")).unwrap();
    range.push(planted.commit_all("mended"));
    let said = planted.said("bisect", &format!("{good},HEAD"), &[]);
    let (_, listed) = said.split_once("the first bad commit is one of these 6 (").unwrap();
    let listed: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, range, "{said}");
}
