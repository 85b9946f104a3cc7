//! Nodes: kernels of User Mode Linux that share a network and a folder. Each can be killed, stopped and booted again.

use crate::line::{Failure, Line};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// The time in which a node boots, also beside other work.
const BOOT_MAX: Duration = Duration::from_secs(400);

/// A server and its clients, which end with this value.
pub(crate) struct Cluster {
    folder: PathBuf,
    options: Options,
    switch: Child,
    nodes: Vec<Node>,
}

/// What a cluster consists of.
pub(crate) struct Options {
    /// The options with which the clients mount the server's folder.
    pub(crate) mount: String,
    /// The delay of each packet that leaves a client, such as `0.5ms`.
    pub(crate) delay: Option<String>,
    pub(crate) clients: usize,
    /// The memory of each client.
    pub(crate) megabytes: usize,
    /// Agents on each client, the first of which runs commands.
    pub(crate) lines: usize,
    /// A planted fault, and the first of the lines whose agents have it.
    pub(crate) planted: Option<(String, usize)>,
}

/// A kernel that runs, or that was killed, with the lines that lead to it.
struct Node {
    process: Mutex<Child>,
    lines: Vec<Line>,
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
            let node = cluster.make(number);
            cluster.nodes.push(node);
            if number == 0 {
                cluster.wait_until_ready(0, &[0]);
            }
        }
        let none = vec![0; cluster.options.lines];
        (1..=cluster.options.clients).for_each(|number| cluster.wait_until_ready(number, &none));
        cluster
    }

    /// Boots a node that was killed. A client mounts the share again.
    pub(crate) fn boot_again(&self, number: usize) {
        let lines = &self.nodes[number].lines;
        let before: Vec<usize> = lines.iter().map(Line::started).collect();
        let process = self.start(number, lines.len(), &["nfs.restarted=1"]);
        *self.process(number) = process;
        self.wait_until_ready(number, &before);
    }

    /// Waits until more agents have started on each line of a node than `before` says for it.
    fn wait_until_ready(&self, number: usize, before: &[usize]) {
        let end = Instant::now() + BOOT_MAX;
        for (line, before) in self.nodes[number].lines.iter().zip(before) {
            assert!(line.wait_for_agent(*before, end), "node {number} did not boot:\n{}", self.console(number));
        }
        self.shell(number, "mountpoint -q /mnt/share || [ -d /mnt/disk/share ]");
    }

    /// Ends a node as a loss of power would.
    pub(crate) fn kill(&self, number: usize) {
        end(&mut self.process(number));
        self.nodes[number].lines.iter().for_each(Line::interrupt);
    }

    /// Stops a node, or lets it continue, without anything in it noticing.
    pub(crate) fn signal(&self, number: usize, signal: &str) {
        // Below `unshare` runs `host`, and below that the kernel, which traces all processes of the node.
        let first = self.process(number).id().to_string();
        let kill = "kill -s \"$2\" $(pgrep -P \"$(pgrep -P \"$1\")\")";
        let done = Command::new("bash").args(["-c", kill, "-", &first, signal]).status();
        assert!(done.is_ok_and(|status| status.success()), "node {number} gets {signal}");
    }

    fn process(&self, number: usize) -> MutexGuard<'_, Child> {
        self.nodes[number].process.lock().expect("no thread panicked with the process")
    }

    fn wait_for(&self, path: &Path) {
        let end = Instant::now() + Duration::from_secs(10);
        while !path.exists() {
            assert!(Instant::now() < end, "there is no '{}'", path.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Boots node `number` for the first time: 0 is the server.
    fn make(&self, number: usize) -> Node {
        let folder = self.node_folder(number);
        let _ = std::fs::create_dir(&folder);
        let lines = if number == 0 { 1 } else { self.options.lines };
        let opened = (0..lines).map(|line| Line::make(&folder, line)).collect();
        Node { process: Mutex::new(self.start(number, lines, &[])), lines: opened }
    }

    /// A folder of this machine, which the nodes can read.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn node_folder(&self, number: usize) -> PathBuf {
        self.folder.join(format!("node{number}"))
    }

    fn start(&self, number: usize, lines: usize, more: &[&str]) -> Child {
        let folder = self.node_folder(number);
        let own = std::env::current_exe().expect("this program has a path");
        // A node does not outlive this program, however this program ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare"]);
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("host")).arg(&folder).arg(self.folder.join("switch"));
        let memory = if number == 0 { 192 } else { self.options.megabytes };
        command.args([(number + 1).to_string(), lines.to_string(), memory.to_string()]);
        command.arg(format!("nfs.role={}", if number == 0 { "server" } else { "client" }));
        command.args([format!("nfs.number={}", number + 1), format!("nfs.lines={lines}")]);
        command.arg(format!("nfs.agent={}", own.display())).arg(format!("nfs.mount={}", self.options.mount));
        command.arg(format!("nfs.git={}", refdb_testkit::Git::find().program().display()));
        if let Some((fault, line)) = &self.options.planted {
            command.args([format!("nfs.fault={fault}"), format!("nfs.faulty={line}")]);
        }
        command.args(self.options.delay.iter().filter(|_| number > 0).map(|delay| format!("nfs.delay={delay}")));
        command.args(more);
        let log = File::create(folder.join("console")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command.spawn().expect("unshare is installed")
    }

    /// How many clients there are: nodes 1 and up.
    pub(crate) fn clients(&self) -> usize {
        self.options.clients
    }

    /// Asks an agent, and waits for its answer.
    pub(crate) fn ask(&self, node: usize, line: usize, words: &[&str]) -> Result<String, Failure> {
        self.nodes[node].lines[line].ask(words)
    }

    /// Runs a command on a node, with its first agent. Panics if it fails.
    pub(crate) fn shell(&self, node: usize, command: &str) -> String {
        self.ask(node, 0, &["shell", "-", command])
            .unwrap_or_else(|said| panic!("node {node}: {command}: {said}\n{}", self.console(node)))
    }

    /// Makes an empty repository at `path` on a node, and runs `then` in it, which can call git by `$git`. Returns what
    /// that printed.
    pub(crate) fn make_repository(&self, node: usize, format: &str, path: &str, then: &str) -> String {
        let git = refdb_testkit::Git::find().program().display();
        self.shell(
            node,
            &format!(
                "git={git}; $git init -q --bare --ref-format={format} {path} && cd {path} && rm -rf hooks && \
                 $git config user.name n && $git config user.email e && $git config http.receivepack true && {then}"
            ),
        )
    }

    fn console(&self, node: usize) -> String {
        std::fs::read_to_string(self.folder.join(format!("node{node}/console"))).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|number| end(&mut self.process(number)));
        end(&mut self.switch);
    }
}

/// Kills a process. With that of a node, which is `unshare`, its child ends too: the first process of a PID namespace,
/// and with it all others of the node.
fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
