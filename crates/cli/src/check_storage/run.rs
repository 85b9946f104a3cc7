//! A run, from making its folder to the verdict.

use super::{
    Settings,
    facts::{self, Conclusion, Facts},
    host::{Host, Trouble},
    load::{self, CLIENTS},
    repository::{self, Format, RunFolder},
    scenes, start,
    verdict::{Findings, Verdict},
};
use crate::{
    failure::{Failure, Result, fatal},
    output::Output,
};
use refdb_vfs::interrupt;
use std::{path::Path, thread};

type Tried<T> = std::result::Result<T, Trouble>;

/// Tests `dir` from this host and all others, and prints the verdict.
pub(super) fn coordinate(settings: &Settings, dir: &Path) -> Result<u8> {
    let run = match RunFolder::make(dir) {
        Ok(run) => run,
        Err(error) => return fatal![error.to_string()],
    };
    let tried = test(settings, &run);
    if interrupt::received().is_some() {
        // If a signal has arrived, it may be the reason for whatever failed.
        return Err(Failure::Interrupted);
    }
    let verdict = match tried {
        Ok(verdict) => verdict,
        Err(Trouble::Here(error)) => Verdict::NotTested(error.to_string()),
        Err(Trouble::Host(text)) => Verdict::NotTested(text),
        Err(Trouble::Interrupted) => return Err(Failure::Interrupted),
    };
    print(&verdict.text())?;
    Ok(verdict.exit_code())
}

fn test(settings: &Settings, run: &RunFolder) -> Tried<Verdict> {
    let hosts = start::all(settings, run)?;
    let facts = hosts.iter().map(|host| facts_of(host, run)).collect::<Tried<Vec<_>>>()?;
    facts.iter().try_for_each(|facts| tell(&facts.text()))?;
    match facts::conclude(&facts) {
        Some(Conclusion::NotTested(why)) => return Ok(Verdict::NotTested(why)),
        Some(Conclusion::Unsafe(why)) => return Ok(Verdict::Unsafe(why)),
        None => {}
    }
    let mut all = Vec::new();
    for (at, format) in settings.formats.iter().enumerate() {
        let mut findings = Findings::new(*format);
        findings.losses = refusals(run, *format, &hosts)?;
        all.push((findings, at * CLIENTS));
    }
    match play(run, &hosts, &mut all).and_then(|()| bear(run, &hosts, settings, &mut all)) {
        // Faults that were seen before the test ended early count all the same.
        Err(Trouble::Host(why)) if all.iter().any(|(findings, _)| findings.has_fault()) => {
            let why = format!("the test ended early: {why}");
            tell(&format!("{why}\n"))?;
            all.iter_mut().for_each(|(findings, _)| findings.untested.push(why.clone()));
        }
        ended => ended?,
    }
    let mut worst = Verdict::Safe;
    for (findings, _) in &all {
        tell(&findings.text())?;
        let verdict = findings.verdict();
        if verdict == Verdict::Safe {
            tell(&format!("{}: safe\n", findings.format))?;
        }
        worst = worst.max(verdict);
    }
    Ok(worst)
}

fn facts_of(host: &Host, run: &RunFolder) -> Tried<Facts> {
    let told = host.ask(0, &["facts", &run.path.to_string_lossy()]).map_err(|why| host.trouble(why))?;
    Ok(Facts::parse(&host.label, &told))
}

/// Returns why refdb refuses to write refs of this format, for each host on which it does.
fn refusals(run: &RunFolder, format: Format, hosts: &[Host]) -> Tried<Vec<String>> {
    let path = run.path.join(format!("try-{format}.git"));
    repository::make(&path, format).map_err(Trouble::Here)?;
    let mut refusals = Vec::new();
    for host in hosts {
        let name = format!("refs/heads/by-{}", host.number);
        let said = host.ask(0, &["try", &path.to_string_lossy(), &name]).map_err(|why| host.trouble(why))?;
        if let Some(why) = said.strip_prefix("refuses: ") {
            refusals.push(format!("refdb refuses to write on {}: {why}", host.label));
        }
    }
    Ok(refusals)
}

/// Plays the scenes in all formats at once, between this host and each other one, both ways.
fn play(run: &RunFolder, hosts: &[Host], all: &mut [(Findings, usize)]) -> Tried<()> {
    let own = &hosts[0];
    let threads = thread::scope(|scope| {
        let mut players = Vec::new();
        for (at, (findings, first)) in all.iter().enumerate() {
            let (format, path) = (findings.format, &run.path);
            for way in 0..CLIENTS {
                let player = scope.spawn(move || {
                    let mut wrong = Vec::new();
                    for other in &hosts[1..] {
                        let pair = if way == 0 { [own, other] } else { [other, own] };
                        wrong.extend(scenes::play_all(path, format, pair, first + way)?);
                    }
                    Ok(wrong)
                });
                players.push((at, player));
            }
        }
        let ended = players.into_iter().map(|(at, player)| (at, player.join().unwrap_or_else(|_| Err(fault()))));
        ended.collect::<Vec<_>>()
    });
    let mut counts = vec![0; all.len()];
    let mut trouble = None;
    for (at, played) in threads {
        match played {
            Ok(wrong) => {
                counts[at] += wrong.len();
                all[at].0.add_scenes(wrong);
            }
            Err(why) => trouble = trouble.or(Some(why)),
        }
    }
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    let played = scenes::SCENES.len() * CLIENTS * (hosts.len() - 1);
    for ((findings, _), wrong) in all.iter().zip(counts) {
        tell(&format!("{}: {} of {played} scenes ended as they must\n", findings.format, played - wrong))?;
    }
    Ok(())
}

/// Runs the load in all formats at once, and judges its histories, also those of loads that ended early.
fn bear(run: &RunFolder, hosts: &[Host], settings: &Settings, all: &mut [(Findings, usize)]) -> Tried<()> {
    for (findings, _) in all.iter() {
        repository::make(&path_of_load(run, findings.format), findings.format).map_err(Trouble::Here)?;
    }
    let histories: Vec<_> = thread::scope(|scope| {
        let start = |(findings, first): &(Findings, usize)| {
            let (path, first) = (path_of_load(run, findings.format).to_string_lossy().into_owned(), *first);
            scope.spawn(move || load::run(hosts, &path, first, settings.time))
        };
        let loads: Vec<_> = all.iter().map(start).collect();
        loads.into_iter().map(|load| load.join().map_err(|_| fault())).collect()
    });
    let labels: Vec<&str> = hosts.iter().map(|host| host.label.as_str()).collect();
    let mut trouble = None;
    for ((findings, _), history) in all.iter_mut().zip(histories) {
        let mut history = history?;
        findings.add_load(&history, &labels);
        if let Some(why) = history.trouble.take() {
            trouble = trouble.or(Some(why));
            continue;
        }
        let (reads, writes) = history.counts.values().fold((0, 0), |sum, host| (sum.0 + host.0, sum.1 + host.1));
        let (format, refused, unknown) = (findings.format, history.refused, history.unknown);
        let seconds = settings.time.as_secs();
        tell(&format!(
            "{format}: load of {seconds} s: {reads} reads, {writes} writes, {refused} refused, {unknown} unknown\n"
        ))?;
    }
    trouble.map_or(Ok(()), Err)
}

fn path_of_load(run: &RunFolder, format: Format) -> std::path::PathBuf {
    run.path.join(format!("load-{format}.git"))
}

/// Returns the trouble that a panic of a thread means.
fn fault() -> Trouble {
    Trouble::Host("a fault in refdb ended the test".into())
}

fn tell(text: &str) -> Tried<()> {
    print(text).map_err(|_| Trouble::Host("standard output cannot be written".into()))
}

fn print(text: &str) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(text.as_bytes());
    output.flush()
}
