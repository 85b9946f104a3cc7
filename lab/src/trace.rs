//! Parses the lines of strace, with pure functions, into the work of one run: programs started, threads, bytes and
//! files.

use std::collections::{BTreeMap, BTreeSet};

use crate::{shell::legible, work::Work};

/// The system calls that are traced, for `strace -e trace=`. Others that open, write or sync, such as `openat2` and
/// `syncfs`, are not counted.
pub const CALLS: &str = "execve,execveat,clone,clone3,fork,vfork,openat,open,creat,rename,renameat,renameat2,link,\
                         linkat,\
unlink,unlinkat,write,writev,pwrite64,pwritev,sendfile,copy_file_range,splice,fsync,fdatasync";

/// The state of reading the trace of one run line by line.
#[derive(Debug, Default)]
pub struct Trace {
    work: Work,
    /// The beginnings of calls whose lines strace has interrupted to print calls of other processes, by process.
    begun: BTreeMap<String, String>,
    /// Bytes written to each file since it was last synced.
    unsynced: BTreeMap<String, u64>,
    /// All processes and threads, by the numbers at the beginning of lines.
    processes: BTreeSet<String>,
    /// The parent of each process.
    parents: BTreeMap<String, String>,
    /// The last command line of each process that executed a program.
    running: BTreeMap<String, String>,
    /// Processes that replaced `packed-refs`, with their command lines at that time.
    packers: Vec<(String, Option<String>)>,
}

impl Trace {
    /// Reads a line of the output of `strace -f -y`.
    pub fn add(&mut self, line: &str) {
        let Some((process, rest)) = line.trim_end().split_once(' ') else { return };
        let rest = rest.trim_start();
        self.processes.insert(process.to_owned());
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(process.to_owned(), begun.trim_end().to_owned());
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((_, end)) = resumed.split_once(" resumed>") else { return };
            let Some(begun) = self.begun.remove(process) else { return };
            self.call(process, &format!("{begun}{end}"));
        } else {
            self.call(process, rest);
        }
    }

    /// Returns the work of the run. In command lines, each of `names` replaces its path, and `PID` replaces the number
    /// of a process, so that two runs of the same program usually have the same command lines.
    pub fn finish(mut self, names: &[(&str, &str)]) -> Work {
        let named = |line: &str| {
            let line = names.iter().fold(line.to_owned(), |line, (path, name)| line.replace(path, name));
            let line = self.without_processes(&line);
            if line.is_empty() { line } else { line.split('\0').map(legible).collect::<Vec<_>>().join(" ") }
        };
        let mut programs = BTreeMap::new();
        for (line, count) in &self.work.programs {
            *programs.entry(named(line)).or_default() += count;
        }
        let chain = |(process, line): &(String, Option<String>)| -> Vec<String> {
            self.starters(process, line.as_deref()).into_iter().map(named).collect()
        };
        let packers = self.packers.iter().map(chain).collect();
        Work { programs, packers, ..std::mem::take(&mut self.work) }
    }

    /// Returns the command lines of the ancestors of a process, the earliest first, followed by that of the process.
    /// A line that equals the one before it is left out.
    fn starters<'a>(&'a self, process: &'a str, line: Option<&'a str>) -> Vec<&'a str> {
        let mut lines = Vec::from_iter(line);
        // Because process numbers are reused, no process is visited twice.
        let mut asked = BTreeSet::from([process]);
        let mut process = process;
        while let Some(parent) = self.parents.get(process).filter(|parent| asked.insert(parent)) {
            lines.extend(self.running.get(parent).map(String::as_str).filter(|line| lines.last() != Some(line)));
            process = parent;
        }
        lines.reverse();
        lines
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

    /// Reads a complete call: `NAME(ARGUMENTS) = RESULT`.
    fn call(&mut self, process: &str, text: &str) {
        let Some((name, rest)) = text.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(") = ").or_else(|| rest.rsplit_once(" = ")) else { return };
        let number: String = result.chars().take_while(char::is_ascii_digit).collect();
        // The result of a failed call is a negative number, or a question mark, for example if the process ended.
        let Ok(number) = number.parse::<u64>() else { return };
        let work = &mut self.work;
        match name {
            "execve" | "execveat" => {
                let line = words(arguments);
                *work.programs.entry(line.clone()).or_default() += 1;
                self.running.insert(process.to_owned(), line);
            }
            "clone" | "clone3" | "fork" | "vfork" => {
                work.threads += u64::from(arguments.contains("CLONE_THREAD"));
                self.parents.insert(number.to_string(), process.to_owned());
            }
            "open" | "openat" | "creat" if name == "creat" || arguments.contains("O_CREAT") => {
                work.created += 1;
                work.locked += u64::from(quoted(arguments).first().is_some_and(|path| path.ends_with(".lock")));
            }
            "rename" | "renameat" | "renameat2" => {
                work.renamed += 1;
                let replaced = |path: &String| path.rsplit('/').next() == Some("packed-refs");
                if quoted(arguments).last().is_some_and(replaced) {
                    self.packers.push((process.to_owned(), self.running.get(process).cloned()));
                }
            }
            "link" | "linkat" => work.linked += 1,
            "unlink" | "unlinkat" => work.removed += 1,
            "write" | "writev" | "pwrite64" | "pwritev" | "sendfile" | "copy_file_range" | "splice" => {
                // The first file in the arguments of `copy_file_range` and `splice` is the one that they read.
                let is_second = matches!(name, "copy_file_range" | "splice");
                let arguments =
                    if is_second { arguments.split_once('>').map_or("", |(_, rest)| rest) } else { arguments };
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

/// Returns the file of the first argument, `5</path>`; `None` for pipes, sockets and devices. Files in `/dev/shm` are
/// not devices.
fn file(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    let is_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    (path.starts_with('/') && !is_device).then_some(path)
}

/// Returns the strings in double quotes, with escaped quotes, backslashes and newlines decoded.
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

/// Returns the command line of the arguments of a call such as `execve("/usr/bin/git", ["git", "push"], ...)`, with the
/// program's name without its folders, and with NULs between the words.
fn words(arguments: &str) -> String {
    let list = arguments.split_once(", [").map_or("", |(_, list)| list);
    let mut words = quoted(list);
    if let Some(program) = words.first_mut()
        && let Some((_, name)) = program.rsplit_once('/')
    {
        *program = name.to_owned();
    }
    words.join("\0")
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
        let programs = BTreeMap::from([("git commit -m 'say \"hi\"'".to_owned(), 1)]);
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
        let expected = "index-pack '--keep=receive-pack PID on host' $WORK/in 17";
        assert_eq!(line(4711, "/w/abc").programs.keys().next().unwrap(), expected);
    }

    #[test]
    fn files_in_memory_are_files_and_devices_are_not() {
        let found = work(&["7  write(1</dev/shm/w/file>, \"abc\", 3) = 3", "7  write(1</dev/null>, \"ab\", 2) = 2"]);
        assert_eq!(found.written, 3);
    }

    #[test]
    fn bytes_that_the_kernel_copies_are_written() {
        let found = work(&[
            "7  copy_file_range(3</w/from>, NULL, 1</w/to>, NULL, 9223372035781033984, 0) = 2",
            "7  sendfile(1</w/to>, 3</w/from>, NULL, 65536) = 30",
            "7  splice(3<pipe:[1]>, NULL, 4</w/to>, NULL, 65536, 0) = 400",
            "7  splice(3</w/from>, NULL, 4<pipe:[1]>, NULL, 65536, 0) = 5000",
            "7  fsync(1</w/to>) = 0",
        ]);
        assert_eq!((found.written, found.synced), (432, 432));
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
    fn the_program_that_packs_refs_is_known_with_those_that_started_it() {
        let found = work(&[
            "7  execve(\"/usr/bin/git\", [\"git\", \"push\"], 0x1 /* 1 var */) = 0",
            "7  vfork( <unfinished ...>",
            "8  execve(\"/usr/bin/git\", [\"git\", \"gc\", \"--auto\"], 0x1 /* 1 var */) = 0",
            "7  <... vfork resumed>)             = 8",
            "9  rename(\"/w/r/packed-refs.new\", \"/w/r/packed-refs\") = 0",
            "8  clone(child_stack=NULL, flags=SIGCHLD) = 9",
            "8  rename(\"/w/r/unpacked-refs.lock\", \"/w/r/unpacked-refs\") = 0",
            "9  clone(child_stack=NULL, flags=SIGCHLD) = 7",
            "8  renameat2(AT_FDCWD</w/r>, \"packed-refs.lock\", AT_FDCWD</w/r>, \"packed-refs\", RENAME_NOREPLACE) = 0",
        ]);
        let chain = ["git push", "git gc --auto"].map(str::to_owned).to_vec();
        assert_eq!(found.packers, BTreeSet::from([chain]));
    }
}
