//! Counting in an emulator, from the outside: within two percent of what perf says on other machines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use refdb_lab::{
    process::{finish, finish_within, tool},
    progress::progress,
};

use super::{Count, Counts, guest};
use crate::{bench::Bench, paired::Who, process::Line};

/// Where `bench/bench` puts the kernel for the emulated machine, below the cache folder.
fn kernel(cache: &Path) -> PathBuf {
    cache.join("kernel/vmlinuz")
}

/// Whether qemu and its kernel are there.
pub fn works(cache: &Path) -> bool {
    kernel(cache).is_file() && tool(Command::new("qemu-system-x86_64").arg("--version")).is_ok()
}

/// Runs all able jobs in one emulated machine.
///
/// qemu's `-icount shift=0` advances the guest's clock by one nanosecond with each instruction. That holds in user
/// space and in the kernel, so a command's processor time in the guest is the count; it varies by one part in a
/// thousand. Unlike on hardware, a string instruction counts once for each repetition. The guest's processor lacks the
/// fast copies of single bytes (ERMS, FSRM), so that programs copy eight bytes with each repetition.
pub fn count(bench: &Bench<'_>, able: &[(&'static str, Who)]) -> Result<Counts> {
    let staging = Staging::new(&bench.cache.join(format!("guest.{}", std::process::id())))?;
    let plan = staging.fill(bench, able)?;
    staging.write_plan(&plan)?;
    let reports = boot(&kernel(&bench.cache), &staging.pack()?)?;
    let mut counts = Counts::new();
    for (number, (id, who)) in able.iter().enumerate() {
        let report = reports.iter().find(|report| report.job == number);
        let steps = match report {
            Some(report) => match &report.error {
                Some(error) => Err(error.clone()),
                None => {
                    let waited: Vec<u64> = report.steps.iter().map(|step| step.waited / 1_000_000).collect();
                    progress(&format!("{id}, {who:?}: the clock ran {waited:?} M beyond the count"));
                    Ok(report.steps.iter().map(millions).collect())
                }
            },
            None => Err("the emulated machine did not get so far".to_owned()),
        };
        counts.insert((bench.job(id)?.id, *who), steps);
    }
    Ok(counts)
}

fn millions(counted: &guest::Counted) -> Count {
    Count { millions: counted.instructions as f64 / 1e6, cut: counted.cut }
}

/// The root folder of the emulated machine, built up on disk with hard links where possible.
struct Staging {
    root: PathBuf,
}

impl Staging {
    fn new(root: &Path) -> Result<Staging> {
        fs::remove_dir_all(root).ok();
        for dir in ["bin", "proc", "dev", "run", "seeds", "inputs", "tmp"] {
            fs::create_dir_all(root.join(dir))?;
        }
        let staging = Staging { root: root.to_owned() };
        staging.install(&std::env::current_exe()?, "init")?;
        // For hooks.
        staging.install(&fs::canonicalize("/bin/sh")?, "bin/sh")?;
        Ok(staging)
    }

    /// Puts a binary and the shared libraries it needs into the machine.
    fn install(&self, binary: &Path, name: &str) -> Result<()> {
        link(binary, &self.root.join(name))?;
        // ldd fails for a static binary, which needs no libraries.
        let needed = finish(Command::new("ldd").arg(binary))?.output;
        for word in String::from_utf8_lossy(&needed).split_whitespace().filter(|word| word.starts_with('/')) {
            let target = self.root.join(word.trim_start_matches('/'));
            fs::create_dir_all(target.parent().context("a library lies in a folder")?)?;
            link(&fs::canonicalize(word)?, &target)?;
        }
        Ok(())
    }

    fn fill(&self, bench: &Bench<'_>, able: &[(&'static str, Who)]) -> Result<Vec<guest::Task>> {
        for who in [Who::Own, Who::Rival] {
            if able.iter().any(|(_, able)| *able == who) {
                let program = bench.program(who);
                self.install(&fs::canonicalize(&program.path)?, &format!("bin/{}", program.name))?;
            }
        }
        able.iter().map(|(id, who)| self.task(bench, id, *who)).collect()
    }

    fn task(&self, bench: &Bench<'_>, id: &str, who: Who) -> Result<guest::Task> {
        let job = bench.job(id)?;
        let seed = bench.seeds.repository(job.format, job.content)?;
        let name = seed.file_name().context("a repository has a name")?;
        let inside = Path::new("/seeds").join(name);
        if !self.outside(&inside).exists() {
            tool(Command::new("cp").arg("-al").arg(&seed).arg(self.outside(&inside)))?;
        }
        let lines = bench.lines(job)?.into_iter().map(|line| self.line(line)).collect::<Result<_>>()?;
        let program = PathBuf::from(format!("/bin/{}", bench.program(who).name));
        Ok(guest::Task { program, seed: inside, reflogs: job.reflogs, lines })
    }

    /// Returns the line with its input inside the machine.
    fn line(&self, line: Line) -> Result<Line> {
        let Some(input) = line.input else { return Ok(line) };
        let inside = Path::new("/inputs").join(input.file_name().context("an input has a name")?);
        if !self.outside(&inside).exists() {
            link(&input, &self.outside(&inside))?;
        }
        Ok(Line { input: Some(inside), ..line })
    }

    fn outside(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    fn write_plan(&self, plan: &[guest::Task]) -> Result<()> {
        Ok(fs::write(self.outside(Path::new(guest::PLAN)), serde_json::to_vec(plan)?)?)
    }

    /// The folder as a cpio archive, which the kernel unpacks into memory.
    fn pack(&self) -> Result<PathBuf> {
        let archive = self.root.with_extension("cpio");
        let command = "find . | cpio --quiet -o -H newc -R 0:0 >\"$0\"";
        tool(Command::new("sh").args(["-c", command]).arg(&archive).current_dir(&self.root))?;
        Ok(archive)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).ok();
        fs::remove_file(self.root.with_extension("cpio")).ok();
    }
}

/// Makes `to` a hard link to `from`, or a copy where no link can be made; leaves `to` as it is if it exists.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() || fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("cannot copy '{}' to '{}'", from.display(), to.display()))?;
    Ok(())
}

/// Seconds that the machine may take: all jobs take it half an hour.
const MACHINE_LIMIT: u64 = 4 * 3600;

/// Boots the machine and gathers what it reports on its console.
fn boot(kernel: &Path, archive: &Path) -> Result<Vec<guest::Report>> {
    // The archive is there twice while the kernel unpacks it; git needs another 600 MB for the job `s3`.
    let megabytes = 1_536 + fs::metadata(archive)?.len() * 3 / 1_000_000;
    let mut machine = Command::new("qemu-system-x86_64");
    machine
        .args(["-M", "pc", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max,-erms,-fsrm"])
        .args(["-smp", "1", "-m", &megabytes.to_string(), "-nographic", "-no-reboot", "-nic", "none"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(archive)
        .args([
            "-append",
            "console=ttyS0 quiet nokaslr panic=-1 clocksource=tsc tsc=reliable tsc_early_khz=1000000 init_on_alloc=0",
        ]);
    let ended = finish_within(&mut machine, MACHINE_LIMIT, true)?;
    let console = String::from_utf8_lossy(&ended.output);
    let mut reports = Vec::new();
    for line in console.lines() {
        if let Some((_, json)) = line.split_once(guest::MARK) {
            reports.push(serde_json::from_str(json.trim()).context("a report is cut off")?);
        }
    }
    if reports.is_empty() {
        let tail: Vec<&str> = console.lines().rev().take(5).collect();
        bail!("the emulated machine reported nothing: {}{}", tail.join(" | "), ended.said);
    }
    Ok(reports)
}
