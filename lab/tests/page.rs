//! Tests `refdb-lab report`: the page is well formed, escapes hostile names, and needs no other files. In a real
//! browser it fits a phone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
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

/// The elements of the page that have no end tag in HTML.
const EMPTY: [&str; 1] = ["meta"];

/// Returns the names of all elements. Checks that elements are nested correctly and that text is escaped.
fn elements(page: &str) -> Vec<String> {
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some((text, more)) = rest.split_once('<') {
        let is_code = open.last().is_some_and(|name| name == "style" || name == "script");
        assert!(!text.contains('>') || is_code, "a stray '>' in {text}");
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
    let known = "a body caption circle code details div figure g h1 h2 head html i li line main meta p path script \
                 section style summary svg table tbody td text th thead title tr ul";
    for name in &names {
        assert!(known.split(' ').any(|known| known == name), "an element '{name}' that the page never has");
    }
    // The only address is SVG's namespace, which a browser does not request.
    let bare = page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "").replace("\n// ", "\n");
    for asked in ["http", "//", " src=", "url(", "@import", "onload=\"x", "fetch(", "import "] {
        assert!(!bare.contains(asked), "the page asks for something: {asked}");
    }
    assert_eq!(page.matches("href=\"").count(), page.matches("href=\"#s").count());
    assert!(page.contains("default-src 'none'"));
    assert_eq!(names.iter().filter(|name| *name == "script").count(), 1, "no name became a script");
    assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
    assert!(page.contains("prefers-color-scheme: dark"));
    let shown = "&lt;/title&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot; onload=&quot;x ";
    assert!(page.contains(&format!("<h2>{shown}: wall time</h2>")), "{page}");
    let plots = names.iter().filter(|name| *name == "svg").count() - 3;
    assert_eq!(plots, 2, "a plot a scenario, and a picture in it for each series");
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

/// A page once hid the first of two such comparisons: a commit is much worse than one other, and is then compared with
/// another one.
#[test]
fn no_comparison_is_hidden_by_a_later_one_and_the_work_stands_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut worse = line(1, ("a", 0.1), ("b", 0.426), "reftable");
    worse["work"] = json!({
        "differences": ["threads started: 3 in va, 10,004 in vb"],
        "figures": { "threads started": [3, 10_004], "syncs": [1, 1] },
    });
    let mut same = line(2, ("c", 0.424), ("b", 0.426), "reftable");
    same["work"] = json!({ "differences": [], "figures": { "syncs": [1, 1] } });
    let history = folder.path().join("history.jsonl");
    fs::write(&history, format!("{worse}\n{same}\n")).unwrap();
    let output = finish(Command::new(env!("CARGO_BIN_EXE_refdb-lab")).arg("report").arg(&history));
    let page = String::from_utf8(output.stdout).unwrap();
    let row = "<td class=\"worse\">worse</td><td>3</td><td>threads started: 3 in va, 10,004 in vb (syncs 1 / 1, \
               threads started 3 / 10,004)</td>";
    let next = "<td>cannot tell</td><td>3</td><td>same work (syncs 1 / 1)</td>";
    let places = [page.find(row).expect("the first comparison stays"), page.find(next).expect("and the second")];
    assert!(places[0] < places[1], "the more important one comes first");
    let (summary, _) = page.split_once("<section>").unwrap();
    assert!(summary.contains("<td class=\"worse\">worse</td><td>4.260 (4.175 to 4.345)</td>"), "{summary}");
    assert!(summary.contains("threads started: 3 in va, 10,004 in vb"), "{summary}");
}

/// Runs Chromium with the document of a file in a frame of this width, and returns the value of `script` in it, where
/// `d` is the document. Takes a picture whose name begins with `name` if `REFDB_PICTURES` is set.
fn browsed(page: &Path, (name, width, dark): (&str, u32, bool), script: &str) -> String {
    let folder = page.parent().unwrap();
    let text = fs::read_to_string(page).unwrap();
    let srcdoc = text.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!("<iframe id=f srcdoc=\"{srcdoc}\" style=\"width:{width}px;height:1400px;border:0\"></iframe>");
    let around = folder.join("around.html");
    let listen =
        format!("<script>f.onload = () => {{ const d = f.contentDocument; document.title = {script} }}</script>");
    fs::write(&around, format!("<!DOCTYPE html><title></title><body style=\"margin:0\">{frame}{listen}")).unwrap();
    let run = |action: &str| {
        let mut chromium = Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        chromium.arg("--virtual-time-budget=2000").arg(format!("--user-data-dir={}", folder.join("profile").display()));
        chromium.arg(format!("--window-size={},1400", width.max(500))).args(dark.then_some("--force-dark-mode"));
        chromium.arg(action).arg(format!("file://{}", around.display()));
        String::from_utf8(finish(&mut chromium).stdout).unwrap()
    };
    if let Some(pictures) = std::env::var_os("REFDB_PICTURES") {
        let name = format!("{name}-{width}-{}.png", if dark { "dark" } else { "light" });
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
    let page = page(folder.path());
    let script = "[d.documentElement.scrollWidth, getComputedStyle(d.body).backgroundColor, \
         d.querySelectorAll('circle').length, [...d.querySelectorAll('text')].every(t => \
         t.getBoundingClientRect().width > 0), \
         [...d.querySelectorAll('.plot text')].every(t => t.getBoundingClientRect().right <= \
         d.documentElement.clientWidth \
         && t.getBoundingClientRect().left >= 0)].join(' ')";
    for width in [390, 1200] {
        for (dark, colour) in [(false, "rgb(252, 252, 251)"), (true, "rgb(26, 26, 25)")] {
            let found = browsed(&page, ("report", width, dark), script);
            assert_eq!(found, format!("{width} {colour} 16 true true"), "no sideways scrolling, dark: {dark}");
        }
    }
}

/// A click into a plot shows the rows of the commit, and a filter hides all other series.
#[test]
#[ignore = "needs Chromium"]
fn in_chromium_a_click_shows_a_commit_and_a_filter_hides_what_is_not_chosen() {
    let folder = histories();
    let page = page(folder.path());
    let click = "(() => { const svg = [...d.querySelectorAll('.plot > svg')].find(s => s.dataset.n === '7'); \
         const box = svg.getBoundingClientRect(); \
         svg.dispatchEvent(new MouseEvent('click', { clientX: box.left + box.width / 2 + 3, clientY: box.top + 9 })); \
         const panel = svg.closest('figure').querySelector('.panel'); \
         const said = [panel.querySelectorAll('tbody tr').length, panel.querySelector('td').textContent, \
         panel.querySelector('.worse').textContent]; \
         svg.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' })); \
         said.push(panel.querySelector('td').textContent); \
         const choice = [...d.querySelectorAll('#filters label')].find(l => l.textContent.startsWith('refformat')); \
         const select = choice.querySelector('select'); \
         select.selectedIndex = [...select.options].findIndex(o => o.text === 'files'); \
         select.dispatchEvent(new Event('change')); \
         said.push([...d.querySelectorAll('details[data-s]')].filter(t => t.offsetParent).length); \
         said.push([...d.querySelectorAll('g[data-s]')].filter(g => getComputedStyle(g).display !== 'none').length); \
         return said.join(' '); })()";
    for width in [390, 1200] {
        assert_eq!(browsed(&page, ("selected", width, false), click), "2 dddddddddd worse cccccccccc 1 1");
    }
}

/// Writes a history of fifty scenarios in one format each, with two thousand commits. One comparison in a hundred
/// differs.
fn large(file: &Path) {
    let mut out = std::io::BufWriter::new(fs::File::create(file).unwrap());
    let side = |number: u64, wall: f64| {
        let run =
            json!({ "wall": wall, "user": 0.1, "system": 0.1, "peak": 1, "instructions": null, "reported": null });
        let commit = format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(3)[..40].to_owned();
        json!({ "revision": commit, "commit": commit, "runs": [run] })
    };
    for scenario in 0..50_u64 {
        let (mut cost, format) = (0.2, if scenario % 2 == 0 { "files" } else { "reftable" });
        for number in 0..1999_u64 {
            let luck = (number * 7919 + scenario * 104_729) % 1000;
            let ratio = if luck < 5 {
                1.08
            } else if luck < 10 {
                0.93
            } else {
                1.0 + (luck % 9) as f64 / 4000.0 - 0.001
            };
            let verdict = if luck < 5 {
                "worse"
            } else if luck < 10 {
                "better"
            } else {
                "cannot-tell"
            };
            let differences = if luck < 10 { vec!["threads started: 3 in its parent, 40 in it"] } else { vec![] };
            let line = json!({
                "time": number, "scenario": format!("scenario-{scenario:02}"), "judge": "wall",
                "parameters": { "refformat": format, "refcount": "10000" },
                "false_alarms": 0.01, "a": side(number, cost), "b": side(number + 1, cost * ratio), "ratio": ratio,
                "low": ratio * 0.99, "high": ratio * 1.01, "verdict": verdict,
                "work": { "differences": differences, "figures": { "system calls": [41_842, 41_843 + luck] } },
            });
            cost *= ratio;
            writeln!(out, "{line}").unwrap();
        }
    }
}

/// The bounds that docs/lab.md states, with room for slow machines.
#[test]
#[ignore = "needs Chromium"]
fn in_chromium_fifty_scenarios_of_two_thousand_commits_are_shown_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (history, page) = (folder.path().join("history.jsonl"), folder.path().join("page.html"));
    large(&history);
    let start = Instant::now();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    let output = finish(lab.arg("report").arg(&history).arg("--output").arg(&page));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (written, size) = (start.elapsed(), fs::metadata(&page).unwrap().len());
    println!("{size} bytes, written in {written:?}");
    assert!(size < 30 << 20, "{size} bytes");
    let script = "[d.querySelector('section').scrollIntoView(), d.documentElement.scrollWidth, \
                  d.querySelectorAll('section').length, \
                  Math.round(f.contentWindow.performance.getEntriesByType('paint')[0]?.startTime ?? 0)] \
                  .slice(1).join(' ')";
    for (width, dark) in [(390, false), (1200, false), (1200, true)] {
        let start = Instant::now();
        let found = browsed(&page, ("large", width, dark), script);
        println!("{width}: {found} in {:?}", start.elapsed());
        assert!(found.starts_with(&format!("{width} 50 ")), "{found}");
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }
}
