//! Nodes: kernels that share a network and a folder, and the lines on which this machine talks with their agents.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// A server and its clients, which end with this value.
pub(crate) struct Cluster {
    folder: PathBuf,
    options: Options,
    switch: Child,
    nodes: Vec<Node>,
}

/// How the clients mount the server's folder.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) mount: String,
    /// The delay of each packet that leaves a client, such as `0.5ms`.
    pub(crate) delay: Option<String>,
    pub(crate) clients: usize,
    /// Agents on each node.
    pub(crate) lines: usize,
}

/// A running kernel.
struct Node {
    process: Child,
    lines: Vec<Mutex<Line>>,
}

/// A serial line, at whose other end an agent answers.
struct Line {
    to: File,
    from: BufReader<File>,
}

impl Cluster {
    /// Boots a server, and then its clients, in `folder`, which must be on a local disk.
    pub(crate) fn boot(folder: &Path, options: Options) -> Self {
        std::fs::create_dir_all(folder).expect("a folder of its own");
        let disk = folder.join("node0/disk");
        std::fs::create_dir_all(folder.join("node0")).expect("a folder for the server");
        File::create(&disk).and_then(|file| file.set_len(2 << 30)).expect("a disk for the server");
        let made = Command::new("mkfs.ext4").arg("-q").arg(&disk).status().expect("mkfs.ext4 is installed");
        assert!(made.success(), "no file system on '{}'", disk.display());
        let switch = Command::new("uml_switch")
            .arg("-unix")
            .arg(folder.join("switch"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("uml_switch is installed");
        let mut cluster = Cluster { folder: folder.to_owned(), options, switch, nodes: Vec::new() };
        cluster.wait_for(&folder.join("switch"));
        for number in 0..=cluster.options.clients {
            let node = cluster.start(number, &[]);
            cluster.nodes.push(node);
            if number == 0 {
                cluster.shell(0, "true");
            }
        }
        for number in 1..=cluster.options.clients {
            cluster.shell(number, "mountpoint -q /mnt/share");
        }
        cluster
    }

    fn wait_for(&self, path: &Path) {
        let end = Instant::now() + Duration::from_secs(10);
        while !path.exists() {
            assert!(Instant::now() < end, "there is no '{}'", path.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Boots node `number`: 0 is the server.
    fn start(&self, number: usize, more: &[&str]) -> Node {
        let folder = self.folder.join(format!("node{number}"));
        let _ = std::fs::create_dir(&folder);
        let lines = if number == 0 { 1 } else { self.options.lines };
        for line in 0..lines {
            for end in ["in", "out"] {
                let fifo = folder.join(format!("line{line}.{end}"));
                let _ = std::fs::remove_file(&fifo);
                assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
            }
        }
        let own = std::env::current_exe().expect("this program has a path");
        // A node does not outlive this program, however it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare"]);
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("host")).arg(&folder).arg(self.folder.join("switch"));
        let memory = if number == 0 { 192 } else { 448 };
        command.args([(number + 1).to_string(), lines.to_string(), memory.to_string()]);
        command.arg(format!("nfs.role={}", if number == 0 { "server" } else { "client" }));
        command.args([format!("nfs.number={}", number + 1), format!("nfs.lines={lines}")]);
        command.arg(format!("nfs.agent={}", own.display())).arg(format!("nfs.mount={}", self.options.mount));
        command.arg(format!("nfs.git={}", refdb_testkit::Git::find().program().display()));
        command.args(std::env::var("REFDB_PLANTED_FAULT").map(|fault| format!("nfs.fault={fault}")));
        command.args(self.options.delay.iter().filter(|_| number > 0).map(|delay| format!("nfs.delay={delay}")));
        command.args(more);
        let log = File::create(folder.join("console")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let process = command.spawn().expect("unshare is installed");
        let lines = (0..lines).map(|line| Mutex::new(Line::open(&folder, line))).collect();
        Node { process, lines }
    }

    /// How many clients there are: nodes 1 and up.
    pub(crate) fn clients(&self) -> usize {
        self.options.clients
    }

    /// Asks an agent, and waits for its answer: what it said behind `ok`, or behind `error`.
    pub(crate) fn ask(&self, node: usize, line: usize, words: &[&str]) -> Result<String, String> {
        let mut line = self.nodes[node].lines[line].lock().expect("no thread panicked with the line");
        line.ask(words)
    }

    /// Runs a command on a node, with its first agent. Panics if it fails.
    pub(crate) fn shell(&self, node: usize, command: &str) -> String {
        self.ask(node, 0, &["shell", "-", command])
            .unwrap_or_else(|said| panic!("node {node}: {command}: {said}\n{}", self.console(node)))
    }

    fn console(&self, node: usize) -> String {
        std::fs::read_to_string(self.folder.join(format!("node{node}/console"))).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // Ends the first process of the node's PID namespace, and with it all others.
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
        let _ = self.switch.kill();
        let _ = self.switch.wait();
    }
}

impl Line {
    fn open(folder: &Path, line: usize) -> Self {
        let open = |end: &str| {
            let path = folder.join(format!("line{line}.{end}"));
            // Read and write, so that neither side waits for the other, and a restart of the agent is no end of file.
            OpenOptions::new().read(true).write(true).open(path).expect("a fifo")
        };
        Line { to: open("in"), from: BufReader::new(open("out")) }
    }

    fn ask(&mut self, words: &[&str]) -> Result<String, String> {
        let text = words.join("\t");
        assert!(!text.contains('\n'), "a line at a time");
        writeln!(self.to, "{text}").expect("the agent reads");
        loop {
            let mut answer = String::new();
            self.from.read_line(&mut answer).expect("the agent answers");
            let answer = answer.trim_end();
            match answer.split_once('\t').unwrap_or((answer, "")) {
                ("ok", said) => return Ok(said.to_owned()),
                ("error", said) => return Err(said.to_owned()),
                _ => {}
            }
        }
    }
}
