//! Tests `refdb-lab report`: the page is well formed, escapes hostile names, and needs no other files. In a real
//! browser it fits a phone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::finish;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A name that would inject a script if the page contained it without escaping.
const HOSTILE: &str = "</title><script>alert('x')</script>&\" onload=\"x\u{7}";

/// Returns a comparison as `--history` writes it.
fn line(time: u64, a: (&str, f64), b: (&str, f64), refformat: &str) -> Value {
    let side = |(name, wall): (&str, f64)| {
        let run =
            json!({ "wall": wall, "user": 0.0, "system": 0.0, "peak": 1, "instructions": null, "reported": null });
        json!({ "revision": format!("v{name}"), "commit": name.repeat(40), "runs": [run, run, run] })
    };
    let ratio = b.1 / a.1;
    let verdict = if ratio > 1.02 {
        "worse"
    } else if ratio < 0.98 {
        "better"
    } else {
        "cannot-tell"
    };
    json!({
        "time": time, "scenario": "receive", "judge": "wall",
        "parameters": { "refformat": refformat, "refcount": "10000" },
        "false_alarms": 0.01, "a": side(a), "b": side(b), "ratio": ratio, "low": ratio * 0.98, "high": ratio * 1.02,
        "verdict": verdict,
    })
}

/// Writes a history of seven commits in two formats and one hostile scenario, with a peer and a floor.
fn histories() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let costs = [("a", 0.182), ("b", 0.184), ("c", 0.183), ("d", 0.485), ("e", 0.47), ("f", 0.186), ("0", 0.17)];
    let mut lines = Vec::new();
    for (time, pair) in (0_u64..).zip(costs.windows(2)) {
        lines.push(line(time, pair[0], pair[1], "files"));
        lines.push(line(time, (pair[0].0, 0.05), (pair[1].0, 0.05 + time as f64 / 500.0), "reftable"));
    }
    let mut hostile = line(9, ("a", 1.0), ("b", 1.5), HOSTILE);
    hostile["scenario"] = HOSTILE.into();
    hostile["b"]["revision"] = HOSTILE.into();
    hostile["b"]["commit"] = HOSTILE.into();
    hostile["high"] = Value::Null;
    lines.push(hostile);
    let save = |name: &str, lines: &[Value]| {
        fs::write(folder.path().join(name), lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    };
    save("ours.jsonl", &lines);
    save("peer.jsonl", &[line(5, ("a", 0.3), ("b", 0.34), "files")]);
    save("floor.jsonl", &[line(5, ("a", 0.1), ("b", 0.085), "files")]);
    folder
}

/// Writes the page of these histories to a file beside them, and returns its path.
fn page(folder: &Path) -> PathBuf {
    let file = |name: &str| folder.join(name);
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.arg("report").arg(file("ours.jsonl")).args(["--peer", HOSTILE]).arg(file("peer.jsonl"));
    lab.args(["--floor", "system calls alone"]).arg(file("floor.jsonl")).arg("--output").arg(file("page.html"));
    let output = finish(&mut lab);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file("page.html")
}

/// Elements without an end tag in HTML.
const EMPTY: [&str; 1] = ["meta"];

/// Returns the names of all elements. Checks that elements are nested correctly and that text is escaped.
fn elements(page: &str) -> Vec<String> {
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some((text, more)) = rest.split_once('<') {
        assert!(!text.contains('>') || open.last() == Some(&"style".to_owned()), "a stray '>' in {text}");
        let (tag, after) = more.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        names.push(name.clone());
        if !tag.ends_with('/') && !EMPTY.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} stay open");
    names
}

#[test]
fn the_page_is_whole_stands_alone_and_shows_names_as_text() {
    let folder = histories();
    let page = fs::read_to_string(page(folder.path())).unwrap();
    let names = elements(&page);
    let known = "body caption circle code div figure g h1 h2 head html i li line main meta p section style svg table \
                 tbody td text th thead title tr ul";
    for name in &names {
        assert!(known.split(' ').any(|known| known == name), "an element '{name}' that the page never has");
    }
    for asked in ["http", "//", "src=", "href=", "url(", "@import", "onload=\"x"] {
        assert!(!page.contains(asked), "the page asks for something: {asked}");
    }
    assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
    assert!(page.contains("prefers-color-scheme: dark"));
    let shown = "&lt;/title&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot; onload=&quot;x ";
    assert!(page.contains(&format!("<h2>{shown}: wall time</h2>")), "{page}");
    assert_eq!(names.iter().filter(|name| *name == "svg").count(), 2, "a plot a scenario");
    assert_eq!(names.iter().filter(|name| *name == "circle").count(), 7 + 7 + 2);
    assert!(page.contains(&format!(
        "<td>{shown}</td><td>peer</td><td class=\"number\">340.00 ms</td><td class=\"number\">0.50</td>"
    )));
    assert!(page.contains(
        "<td>system calls alone</td><td>floor</td><td class=\"number\">85.00 ms</td><td class=\"number\">2.00</td>"
    ));
    assert!(page.contains("<td class=\"worse\">worse</td>") && page.contains("<td class=\"better\">better</td>"));
}

#[test]
fn histories_that_are_none_are_named_with_their_lines() {
    let folder = histories();
    let broken = folder.path().join("broken.jsonl");
    fs::write(&broken, "{}\n").unwrap();
    let complaint = |file: &Path| {
        let output = finish(Command::new(env!("CARGO_BIN_EXE_refdb-lab")).arg("report").arg(file));
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = complaint(&broken);
    assert!(said.contains("broken.jsonl': line 1 is no comparison of a history: missing field"), "{said}");
    fs::write(&broken, "").unwrap();
    assert!(complaint(&broken).contains("there is no comparison in the histories"));
    assert!(complaint(&folder.path().join("none")).contains("cannot read '"));
}

/// Returns the value of `script` in Chromium, where `d` is the document of the page in a frame of this width. Takes a
/// picture if `REFDB_PICTURES` is set.
fn browsed(folder: &Path, width: u32, dark: bool, script: &str) -> String {
    let page = fs::read_to_string(page(folder)).unwrap();
    let srcdoc = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!("<iframe id=f srcdoc=\"{srcdoc}\" style=\"width:{width}px;height:1400px;border:0\"></iframe>");
    let around = folder.join("around.html");
    let listen =
        format!("<script>f.onload = () => {{ const d = f.contentDocument; document.title = {script} }}</script>");
    fs::write(&around, format!("<!DOCTYPE html><title></title><body style=\"margin:0\">{frame}{listen}")).unwrap();
    let run = |action: &str| {
        let mut chromium = Command::new("chromium");
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=2000",
        ]);
        chromium.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        chromium.arg(format!("--window-size={},1400", width.max(500))).args(dark.then_some("--force-dark-mode"));
        chromium.arg(action).arg(format!("file://{}", around.display()));
        String::from_utf8(finish(&mut chromium).stdout).unwrap()
    };
    if let Some(pictures) = std::env::var_os("REFDB_PICTURES") {
        let name = format!("report-{width}-{}.png", if dark { "dark" } else { "light" });
        run(&format!("--screenshot={}", Path::new(&pictures).join(name).display()));
    }
    let dom = run("--dump-dom");
    dom.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0.to_owned()
}

/// Runs in `make test-long`, because Chromium is large. `REFDB_PICTURES` names a folder for screenshots.
#[test]
#[ignore = "needs Chromium"]
fn in_chromium_the_page_fits_a_phone_in_both_schemes() {
    let folder = histories();
    let script = "[d.documentElement.scrollWidth, getComputedStyle(d.body).backgroundColor, \
         d.querySelectorAll('circle').length, [...d.querySelectorAll('text')].every(t => \
         t.getBoundingClientRect().width > 0), \
         [...d.querySelectorAll('.plot text')].every(t => t.getBoundingClientRect().right <= \
         d.documentElement.clientWidth \
         && t.getBoundingClientRect().left >= 0)].join(' ')";
    for width in [390, 1200] {
        for (dark, colour) in [(false, "rgb(252, 252, 251)"), (true, "rgb(26, 26, 25)")] {
            let found = browsed(folder.path(), width, dark, script);
            assert_eq!(found, format!("{width} {colour} 16 true true"), "no sideways scrolling, dark: {dark}");
        }
    }
}
