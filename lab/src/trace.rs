//! The work of one run as strace saw it: programs started, threads, bytes, files. Lines to values; nothing runs here.

use std::collections::{BTreeMap, BTreeSet};

/// The system calls that are looked at, for `strace -e trace=`.
pub const CALLS: &str = "execve,execveat,clone,clone3,openat,open,creat,rename,renameat,renameat2,link,linkat,\
unlink,unlinkat,write,writev,pwrite64,pwritev,fsync,fdatasync";

/// All that one run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// How often each command line was started.
    pub programs: BTreeMap<String, u64>,
    /// Threads started.
    pub threads: u64,
    /// Bytes written to files; pipes, sockets and terminals do not count.
    pub written: u64,
    /// Bytes written to files that were synced afterwards.
    pub synced: u64,
    /// Calls of fsync and fdatasync.
    pub syncs: u64,
    /// Files opened to be created.
    pub created: u64,
    /// Those of them whose name ends with `.lock`.
    pub locked: u64,
    /// Files renamed.
    pub renamed: u64,
    /// Files linked.
    pub linked: u64,
    /// Files removed.
    pub removed: u64,
}

/// Lines of one run, read one by one.
#[derive(Debug, Default)]
pub struct Trace {
    work: Work,
    /// The beginnings of calls that other processes interrupted, by process.
    begun: BTreeMap<String, String>,
    /// Bytes written to each file since it was last synced.
    unsynced: BTreeMap<String, u64>,
    /// All processes and threads, by the numbers that stand at the beginning of lines.
    processes: BTreeSet<String>,
}

impl Trace {
    /// Takes in a line of `strace -f -y`.
    pub fn add(&mut self, line: &str) {
        let Some((process, rest)) = line.trim_end().split_once(' ') else { return };
        let rest = rest.trim_start();
        self.processes.insert(process.to_owned());
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(process.to_owned(), begun.trim_end().to_owned());
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((_, end)) = resumed.split_once(" resumed>") else { return };
            let Some(begun) = self.begun.remove(process) else { return };
            self.call(&format!("{begun}{end}"));
        } else {
            self.call(rest);
        }
    }

    /// All that the lines said. In command lines each of `names` stands for its path, and `PID` for the number of a
    /// process. So two runs of the same program have the same.
    pub fn finish(mut self, names: &[(&str, &str)]) -> Work {
        let mut programs = BTreeMap::new();
        for (line, count) in std::mem::take(&mut self.work.programs) {
            let named = names.iter().fold(line, |line, (path, name)| line.replace(path, name));
            *programs.entry(self.without_processes(&named)).or_default() += count;
        }
        Work { programs, ..self.work }
    }

    fn without_processes(&self, line: &str) -> String {
        let mut text = String::new();
        let mut rest = line;
        while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
            let digits = rest[start..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len() - start);
            let number = &rest[start..start + digits];
            text += &rest[..start];
            text += if self.processes.contains(number) { "PID" } else { number };
            rest = &rest[start + digits..];
        }
        text + rest
    }

    /// A whole call: `NAME(ARGUMENTS) = RESULT`.
    fn call(&mut self, text: &str) {
        let Some((name, rest)) = text.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(") = ").or_else(|| rest.rsplit_once(" = ")) else { return };
        let number: String = result.chars().take_while(char::is_ascii_digit).collect();
        // A failed call gives a negative number, or a question mark when the process ended in it.
        let Ok(number) = number.parse::<u64>() else { return };
        let work = &mut self.work;
        match name {
            "execve" | "execveat" => *work.programs.entry(words(arguments)).or_default() += 1,
            "clone" | "clone3" if arguments.contains("CLONE_THREAD") => work.threads += 1,
            "open" | "openat" | "creat" if name == "creat" || arguments.contains("O_CREAT") => {
                work.created += 1;
                work.locked += u64::from(quoted(arguments).first().is_some_and(|path| path.ends_with(".lock")));
            }
            "rename" | "renameat" | "renameat2" => work.renamed += 1,
            "link" | "linkat" => work.linked += 1,
            "unlink" | "unlinkat" => work.removed += 1,
            "write" | "writev" | "pwrite64" | "pwritev" => {
                if let Some(path) = file(arguments) {
                    work.written += number;
                    *self.unsynced.entry(path.to_owned()).or_default() += number;
                }
            }
            "fsync" | "fdatasync" => {
                work.syncs += 1;
                let bytes = file(arguments).and_then(|path| self.unsynced.remove(path));
                work.synced += bytes.unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// The file of the first argument, `5</path>`; absent for pipes, sockets and devices.
fn file(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    (path.starts_with('/') && !path.starts_with("/dev/")).then_some(path)
}

/// The strings in double quotes, with the escapes of quotes and backslashes undone.
fn quoted(text: &str) -> Vec<String> {
    let (mut strings, mut open, mut escaped) = (Vec::new(), None::<String>, false);
    for letter in text.chars() {
        match &mut open {
            None if letter == '"' => open = Some(String::new()),
            None => {}
            Some(string) => match letter {
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                '"' if !escaped => strings.extend(open.take()),
                'n' if escaped => string.push('\n'),
                other => string.push(other),
            },
        }
        escaped = false;
    }
    strings
}

/// The command line of `execve("/usr/bin/git", ["git", "push"], ...)`, its program without folders.
fn words(arguments: &str) -> String {
    let list = arguments.split_once(", [").map_or("", |(_, list)| list);
    let mut words = quoted(list);
    if let Some(program) = words.first_mut()
        && let Some((_, name)) = program.rsplit_once('/')
    {
        *program = name.to_owned();
    }
    words.join(" ")
}

/// A figure of the work, and its name.
type Figure = (&'static str, fn(&Work) -> u64);

const BYTES: [Figure; 2] = [("bytes written", |work| work.written), ("bytes synced", |work| work.synced)];

const COUNTS: [Figure; 7] = [
    ("threads started", |work| work.threads),
    ("syncs", |work| work.syncs),
    ("files created", |work| work.created),
    ("files locked", |work| work.locked),
    ("files renamed", |work| work.renamed),
    ("files linked", |work| work.linked),
    ("files removed", |work| work.removed),
];

/// The work that B did and A did not, and the other way round, in sentences. There are none if both did the same.
/// Bytes may differ by a hundredth.
pub fn differences(a: (&str, &Work), b: (&str, &Work)) -> Vec<String> {
    let mut said = Vec::new();
    let programs: BTreeSet<&String> = a.1.programs.keys().chain(b.1.programs.keys()).collect();
    for program in programs {
        let count = |work: &Work| work.programs.get(program).copied().unwrap_or_default();
        match (count(a.1), count(b.1)) {
            (in_a, in_b) if in_a == in_b => {}
            (0, count) => said.push(format!("{} also ran `{program}`{}", b.0, times(count))),
            (count, 0) => said.push(format!("only {} ran `{program}`{}", a.0, times(count))),
            (in_a, in_b) => said.push(format!("`{program}` ran {in_a} times in {}, {in_b} times in {}", a.0, b.0)),
        }
    }
    // Numbers of processes and times are written too, in more or fewer digits.
    let few = |in_a: u64, in_b: u64| in_a.abs_diff(in_b) * 100 <= in_a.max(in_b);
    for (name, count) in BYTES {
        let (in_a, in_b) = (count(a.1), count(b.1));
        if !few(in_a, in_b) {
            said.push(format!("{name}: {in_a} in {}, {in_b} in {}", a.0, b.0));
        }
    }
    for (name, count) in COUNTS {
        let (in_a, in_b) = (count(a.1), count(b.1));
        if in_a != in_b {
            said.push(format!("{name}: {in_a} in {}, {in_b} in {}", a.0, b.0));
        }
    }
    said
}

fn times(count: u64) -> String {
    if count == 1 { String::new() } else { format!(" {count} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(lines: &[&str]) -> Work {
        let mut trace = Trace::default();
        lines.iter().for_each(|line| trace.add(line));
        trace.finish(&[("/w", "$WORK")])
    }

    #[test]
    fn programs_threads_files_and_bytes_are_counted() {
        let found = work(&[
            "7  execve(\"/usr/bin/git\", [\"git\", \"commit\", \"-m\", \"say \\\"hi\\\"\"], 0x7ff /* 35 vars */) = 0",
            "7  execve(\"/none/git\", [\"git\"], 0x7ff /* 35 vars */) = -1 ENOENT (No such file or directory)",
            "7  clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD, child_tid=0x1}, 88) = 9",
            "7  clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 10",
            "7  openat(AT_FDCWD</w>, \"/w/r/HEAD.lock\", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 5</w/r/HEAD.lock>",
            "7  openat(AT_FDCWD</w>, \"/w/r/HEAD\", O_RDONLY) = 6</w/r/HEAD>",
            "7  write(5</w/r/HEAD.lock>, \"ref: refs/heads/main) = 3\\n\", 21) = 21",
            "7  write(1<pipe:[123]>, \"x\", 1) = 1",
            "7  fsync(5</w/r/HEAD.lock>) = 0",
            "7  write(5</w/r/HEAD.lock>, \"late\"..., 400) = 400",
            "7  rename(\"/w/r/HEAD.lock\", \"/w/r/HEAD\") = 0",
            "7  unlink(\"/w/r/gone\") = -1 ENOENT (No such file or directory)",
            "7  +++ exited with 0 +++",
        ]);
        let programs = BTreeMap::from([("git commit -m say \"hi\"".to_owned(), 1)]);
        let expected = Work {
            programs,
            threads: 1,
            written: 421,
            synced: 21,
            syncs: 1,
            created: 1,
            locked: 1,
            renamed: 1,
            ..Work::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_call_that_others_interrupted_is_put_together() {
        let found = work(&[
            "7690  execve(\"/usr/bin/git\", [\"git\", \"gc\"], 0x55 /* 35 vars */ <unfinished ...>",
            "7683  write(3</w/file>, \"abc\", 3 <unfinished ...>",
            "7690  <... execve resumed>)             = 0",
            "7683  <... write resumed>)              = 3",
            "7683  <... read resumed>)               = 3",
        ]);
        assert_eq!((found.programs.get("git gc"), found.written), (Some(&1), 3));
    }

    #[test]
    fn paths_and_numbers_of_one_run_make_no_difference() {
        let line = |process: u32, folder: &str| {
            let arguments =
                format!("[\"index-pack\", \"--keep=receive-pack {process} on host\", \"{folder}/in\", \"17\"]");
            let mut trace = Trace::default();
            trace.add(&format!("{process} execve(\"/bin/index-pack\", {arguments}, 0x1 /* 1 var */) = 0"));
            trace.finish(&[(folder, "$WORK")])
        };
        assert_eq!(line(4711, "/w/abc"), line(815, "/w/xyz"));
        let expected = "index-pack --keep=receive-pack PID on host $WORK/in 17";
        assert_eq!(line(4711, "/w/abc").programs.keys().next().unwrap(), expected);
    }

    #[test]
    fn few_bytes_more_are_no_difference_and_many_are() {
        let with = |written: u64| Work { written, ..Work::default() };
        assert_eq!(differences(("A", &with(1000)), ("B", &with(1010))), Vec::<String>::new());
        assert_eq!(differences(("A", &with(1000)), ("B", &with(1100))), ["bytes written: 1000 in A, 1100 in B"]);
    }

    #[test]
    fn no_line_is_too_strange() {
        let mut trace = Trace::default();
        for line in
            ["", "7", "7  ", "7  write(", "7  write(5</w", "7  <... x", "7  ) = 4", "7  execve(\"\\", "x = ) = 1"]
        {
            trace.add(line);
        }
        assert_eq!(trace.finish(&[]), Work::default());
    }

    #[test]
    fn differences_are_named_and_equal_work_is_not() {
        let git = |list: &str| {
            work(&[
                "1 execve(\"/bin/git\", [\"git\", \"push\"], 0x1 /* 1 var */) = 0",
                &format!("2 execve(\"/bin/git\", [{list}], 0x1 /* 1 var */) = 0"),
            ])
        };
        let (a, b) = (git("\"git\", \"push\""), git("\"git\", \"maintenance\", \"run\", \"--auto\""));
        assert_eq!(differences(("A", &a), ("B", &a)), Vec::<String>::new());
        assert_eq!(
            differences(("A", &a), ("B", &b)),
            ["B also ran `git maintenance run --auto`", "`git push` ran 2 times in A, 1 times in B"]
        );
        let longer = Work { threads: 3, ..a.clone() };
        assert_eq!(differences(("A", &a), ("B", &longer)), ["threads started: 0 in A, 3 in B"]);
    }
}
