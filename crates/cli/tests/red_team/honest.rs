//! The largest honest pushes that a small machine can make, and the memory and processor time that each takes: far less
//! than the defaults of `refdb.receiveMemoryLimit` and `refdb.receiveTimeLimit`.

use crate::{
    REFDB,
    cost::{TICKS_PER_SECOND, descendants, memory_kib, own_processor_ticks},
};
use refdb_testkit::{Git, RefFormat, Repo, Rng};
use refdb_types::HashKind;
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufWriter, Write},
    process::{Command, Stdio},
    time::Duration,
};

/// The defaults of `refdb.receiveMemoryLimit` in KiB, and of `refdb.receiveTimeLimit` in milliseconds.
const MEMORY_KIB_MAX: u64 = 8 << 20;
const MILLIS_MAX: u64 = 4 * 60 * 60 * 1000;

/// The programs that work for a push, including refdb's own.
const PROGRAMS: [&str; 4] = ["receive-pack", "index-pack", "unpack-objects", "rev-list"];

/// Writes commands of git-fast-import(1).
struct Import<W: Write> {
    to: W,
    rng: Rng,
}

impl<W: Write> Import<W> {
    fn data(&mut self, text: &[u8]) {
        writeln!(self.to, "data {}", text.len()).unwrap();
        self.to.write_all(text).unwrap();
        self.to.write_all(b"\n").unwrap();
    }

    fn commit(&mut self, second: usize, message: &str) {
        writeln!(self.to, "commit refs/heads/main\ncommitter C O Mitter <c@example.com> {second} +0000").unwrap();
        self.data(message.as_bytes());
    }

    fn file(&mut self, path: &str, text: &[u8]) {
        writeln!(self.to, "M 100644 inline {path}").unwrap();
        self.data(text);
    }

    fn random(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes.div_ceil(8)).flat_map(|_| self.rng.bits().to_le_bytes()).collect()
    }

    /// Returns lines that compress like source code.
    fn lines(&mut self, lines: usize) -> Vec<u8> {
        let line = |at: usize, number: u64| format!("    let value_{at} = compute({number:x}, &state)?;\n");
        (0..lines).flat_map(|at| line(at, self.rng.bits() >> 40).into_bytes()).collect()
    }
}

type Content<'a> = &'a dyn Fn(&mut Import<BufWriter<std::process::ChildStdin>>);

/// Creates a repository with the content that `write` produces, and the request that pushes all of it. Returns the
/// number of objects.
fn make_request(name: &str, write: Content<'_>, options: &[&str], request: &File) -> usize {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let compression = "core.compression=1";
    let mut import = repo.command(Git::find().program());
    // Git shall compress fast here, not well.
    import.args(["-c", "fastimport.unpackLimit=1", "-c", compression, "fast-import", "--quiet"]).args(options);
    let mut import = import.stdin(Stdio::piped()).spawn().unwrap();
    let mut stream = Import { to: BufWriter::new(import.stdin.take().unwrap()), rng: Rng::new(1) };
    write(&mut stream);
    drop(stream);
    assert!(import.wait().unwrap().success(), "{name}");
    let id = repo.git(["rev-parse", "refs/heads/main"]);
    let count = repo.git(["rev-list", "--objects", "--all", "--count"]).trim().parse().unwrap();
    let command = format!("{} {id} refs/heads/main\0report-status", "0".repeat(id.len()));
    write!(&*request, "{:04x}{command}0000", command.len() + 4).unwrap();
    let mut pack = repo.command(Git::find().program());
    pack.args(["-c", compression, "pack-objects", "--revs", "--all", "--stdout", "-q", "--delta-base-offset"]);
    pack.args(options).stdin(Stdio::null()).stdout(request.try_clone().unwrap());
    assert!(pack.status().unwrap().success(), "{name}");
    count
}

/// Returns, by command, the most private memory in KiB and the most processor time in milliseconds of any of its
/// processes.
fn take(server: &Repo, request: &std::path::Path) -> BTreeMap<&'static str, (u64, u64)> {
    let mut feed = Command::new("cat").arg(request).stdout(Stdio::piped()).spawn().unwrap();
    let mut receive = server.command(REFDB);
    receive.args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    receive
        .stdin(feed.stdout.take().unwrap())
        .stdout(Stdio::null())
        .stderr(File::create(server.scratch().join("said")).unwrap());
    let mut receive = receive.spawn().unwrap();
    let mut most: HashMap<u32, (&str, u64, u64)> = HashMap::new();
    while receive.try_wait().unwrap().is_none() {
        for pid in [vec![receive.id()], descendants(receive.id())].concat() {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = || line.split(|byte| *byte == 0);
            let Some(command) = PROGRAMS.iter().find(|command| words().any(|word| word == command.as_bytes())) else {
                continue;
            };
            let seen = most.entry(pid).or_default();
            seen.0 = command;
            seen.1 = seen.1.max(memory_kib(pid));
            seen.2 = seen.2.max(own_processor_ticks(pid) * 1000 / TICKS_PER_SECOND);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    feed.wait().unwrap();
    let mut by_command = BTreeMap::new();
    for (command, memory, millis) in most.into_values() {
        let all: &mut (u64, u64) = by_command.entry(command).or_default();
        *all = (all.0.max(memory), all.1.max(millis));
    }
    by_command
}

/// Prints a table of what each push takes with every check that git has: `transfer.fsckObjects` is set, and refdb
/// delegates the connectivity check to git.
#[test]
#[ignore = "takes minutes, gigabytes of memory and of disk: scripts/test-long \"largest pushes\""]
fn the_largest_honest_pushes_stay_far_below_the_default_limits() {
    let history = |import: &mut Import<_>| {
        let text = import.lines(40);
        for at in 0..40_000 {
            import.commit(at, "A change\n\nSigned-off-by: C O Mitter <c@example.com>\n");
            for _ in 0..4 {
                let place = if at < 5_000 { 4 * at + import.rng.below(4) } else { import.rng.below(20_000) };
                let own = format!("// {place} as of {at}\n{}", import.rng.bits());
                let path = format!("d{}/e{}/f{place}.rs", place % 29, place % 31);
                import.file(&path, &[own.as_bytes(), &text].concat());
            }
        }
    };
    let many_files = |import: &mut Import<_>| {
        import.commit(1, "1,500 files of 1 MiB that do not compress");
        for at in 0..1_500 {
            let content = import.random(1 << 20);
            import.file(&format!("f{at}"), &content);
        }
    };
    let large_file = |import: &mut Import<_>| {
        // Just below core.bigFileThreshold, so that git holds it in memory, and the next version is a delta.
        let mut text = import.lines(10_000_000);
        text.truncate(500 << 20);
        for at in 0..2 {
            import.commit(at, "a file of 500 MiB");
            text[at << 20] ^= 1;
            import.file("f", &text);
        }
    };
    let chains = |import: &mut Import<_>| {
        let mut text = import.lines(4_000);
        for at in 0..4_000 {
            import.commit(at, "a version");
            let place = import.rng.below(text.len());
            text[place] = b'0' + (at % 10) as u8;
            import.file("f", &text);
        }
    };
    let pushes: [(&str, Content<'_>, &[&str]); 4] = [
        ("40,000 commits, 4 of 20,000 files each", &history, &[]),
        ("1,500 files of 1 MiB that do not compress", &many_files, &["--depth=0"]),
        ("two versions of a file of 500 MiB, one a delta", &large_file, &[]),
        ("4,000 versions of a file of 200 KB, in a chain of deltas", &chains, &["--depth=4095"]),
    ];
    println!("| push | objects | pack | program | memory | processor time |\n|-|-|-|-|-|-|");
    for (name, write, options) in pushes {
        let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
        for (key, value) in
            [("receive.autogc", "false"), ("transfer.fsckObjects", "true"), ("refdb.receiveReadLimit", "0")]
        {
            server.config(key, value);
        }
        let request = server.scratch().join("request");
        let objects = make_request(name, write, options, &File::create(&request).unwrap());
        let mib = fs::metadata(&request).unwrap().len() >> 20;
        let most = take(&server, &request);
        let said = fs::read_to_string(server.scratch().join("said")).unwrap();
        assert!(!server.refs().is_empty(), "{name} is accepted: {said}");
        for (program, (memory_kib, millis)) in most {
            let seconds = millis as f64 / 1000.0;
            println!("| {name} | {objects} | {mib} MiB | {program} | {} MiB | {seconds:.1} s |", memory_kib >> 10);
            assert!(memory_kib <= MEMORY_KIB_MAX / 2 && millis <= MILLIS_MAX / 10, "{name}: {program}");
        }
    }
}
