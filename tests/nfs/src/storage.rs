//! `refdb check-storage` between two clients, which meet in the share.

use crate::{line::Failure, node::Cluster};

/// Runs `refdb check-storage` for so many seconds by the agents of one line, with their planted fault if they have one.
/// Returns what it said.
pub(crate) fn run(cluster: &Cluster, refdb: &str, line: usize, seconds: u64) -> String {
    let shell = |node: usize, command: &str| match cluster.ask(node, line, &["shell", "-", command]) {
        Ok(said) | Err(Failure::Failed(said)) => said,
        Err(Failure::Killed) => panic!("an agent was killed"),
    };
    shell(2, &format!("nohup {refdb} check-storage --join /mnt/share >/mnt/tmp/joined 2>&1 </dev/null &"));
    let said = shell(1, &format!("{refdb} check-storage --wait=1 --seconds={seconds} /mnt/share 2>/mnt/tmp/errors"));
    let left = shell(1, "ls -d /mnt/share/refdb-check-* 2>/dev/null");
    assert_eq!(left, "", "the folder of the run is removed");
    said.replace(" | ", "\n")
}
