//! Faults that come while a load runs: of agents, of nodes, of the network between them, of the share and of clocks.

use crate::{load::Plan, node::Cluster};
use refdb_testkit::Rng;
use std::{
    collections::BTreeMap,
    fmt,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time between two faults.
const PAUSE: Duration = Duration::from_secs(4);
/// Less than the lease that the server gives to its clients, which is 10 s.
const SHORT: Duration = Duration::from_secs(4);
/// More than that lease.
const LONG: Duration = Duration::from_secs(25);

/// What goes wrong during a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// An agent is killed by `kill -9`, and leaves the locks that it holds.
    KillAgent,
    /// A client loses its power and is booted again.
    KillClient,
    /// A client is stopped for less than its lease, and continues.
    Freeze,
    /// A client is stopped for longer than its lease, and continues.
    FreezeForLong,
    /// A client has no network for less than its lease.
    Cut,
    /// A client has no network for longer than its lease.
    CutForLong,
    /// The server loses its power and is booted again.
    KillServer,
    /// The server has no network for some seconds, so that replies are lost.
    CutServer,
    /// The share is full for some seconds.
    Full,
    /// The clock of a client jumps by ten minutes, and stays there.
    Clock,
}

pub(crate) const ALL: [Fault; 10] = [
    Fault::KillAgent,
    Fault::KillClient,
    Fault::Freeze,
    Fault::FreezeForLong,
    Fault::Cut,
    Fault::CutForLong,
    Fault::KillServer,
    Fault::CutServer,
    Fault::Full,
    Fault::Clock,
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Causes the faults of a plan until `end`, one after the other, each at least once if there is time. Returns how often
/// each came.
pub(crate) fn come(
    cluster: &Cluster,
    plan: &Plan<'_>,
    path: &str,
    end: Instant,
    rng: &mut Rng,
) -> BTreeMap<Fault, usize> {
    let (mut came, mut left) = (BTreeMap::new(), Vec::new());
    while !plan.faults.is_empty() {
        if left.is_empty() {
            left = plan.faults.to_vec();
            rng.shuffle(&mut left);
        }
        sleep(PAUSE);
        if Instant::now() + LONG > end {
            break;
        }
        let fault = left.pop().expect("faults are left");
        let client = 1 + rng.below(cluster.clients());
        let line = plan.line + rng.below(plan.engines.len());
        eprintln!("{fault} on client {client}");
        comes(fault, cluster, client, line, path);
        *came.entry(fault).or_default() += 1;
    }
    came
}

/// Causes a fault, and takes it away again after some seconds, except that a clock stays as it is and that the node
/// itself replaces a killed agent.
fn comes(fault: Fault, cluster: &Cluster, client: usize, line: usize, path: &str) {
    match fault {
        Fault::KillAgent => drop(cluster.shell(client, &format!("kill -9 $(cat /mnt/agent{line})"))),
        Fault::KillClient => {
            let lost = cluster.shell(client, "cat /proc/sys/kernel/random/boot_id");
            cluster.kill(client);
            sleep(SHORT);
            cluster.boot_again(client);
            remove_locks(cluster, client, path, &lost);
        }
        Fault::Freeze => freeze(cluster, client, SHORT),
        Fault::FreezeForLong => freeze(cluster, client, LONG),
        Fault::Cut => cut(cluster, client, SHORT),
        Fault::CutForLong => cut(cluster, client, LONG),
        Fault::KillServer => {
            cluster.kill(0);
            sleep(SHORT);
            cluster.boot_again(0);
        }
        Fault::CutServer => cut(cluster, 0, SHORT),
        Fault::Full => {
            let fill = "dd if=/dev/zero of=/mnt/disk/fill bs=1M 2>/dev/null; sleep 3; rm /mnt/disk/fill";
            cluster.shell(0, fill);
        }
        Fault::Clock => drop(cluster.shell(client, "date -s '+10 minutes'")),
    }
}

fn freeze(cluster: &Cluster, node: usize, time: Duration) {
    cluster.signal(node, "STOP");
    sleep(time);
    cluster.signal(node, "CONT");
}

/// Takes a node off the network. Its agents are reached by serial lines.
fn cut(cluster: &Cluster, node: usize, time: Duration) {
    let seconds = time.as_secs();
    cluster.shell(node, &format!("ip link set eth0 down; sleep {seconds}; ip link set eth0 up"));
}

/// Removes what a client that lost its power left locked, as an administrator does.
fn remove_locks(cluster: &Cluster, client: usize, path: &str, lost: &str) {
    let refdb = std::env::current_exe().expect("this program has a path").with_file_name("refdb");
    cluster.shell(client, &format!("{} -C {path} refs locks --remove --boot={lost}", refdb.display()));
}
