//! What each host reports about itself and its mount, and what follows from that before anything is tried.

use refdb_vfs::{Mount, boot_id, host_name, planted};
use std::path::Path;

/// What a host reports about itself and its mount.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// What the host is called in messages.
    pub(super) label: String,
    /// The host's own name, by which an NFS 4 server knows it.
    host_name: String,
    boot_id: String,
    kernel: String,
    mount: Mount,
    /// What the NFS client sends to an NFS 4 server in addition to the host name (`nfs4_unique_id`).
    unique_id: String,
}

/// A conclusion from the facts alone.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Conclusion {
    /// Nothing can be learned: two of the hosts are one machine, or a host does not tell its boot id or its mount.
    NotTested(String),
    Unsafe(String),
}

/// Returns the facts of this host about a folder, in the form that [`Facts::parse`] reads.
pub(super) fn own(dir: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let fields = [
        String::from_utf8_lossy(&host_name()).into_owned(),
        boot_id().unwrap_or_default().to_owned(),
        read("/proc/sys/kernel/osrelease"),
        Mount::of(dir).map(|mount| mount.options().to_owned()).unwrap_or_default(),
        read("/sys/module/nfs/parameters/nfs4_unique_id"),
    ];
    fields.map(|field| field.replace(['\t', '\n'], " ")).join("\t")
}

impl Facts {
    /// Reads the facts of a host.
    pub(super) fn parse(label: &str, text: &str) -> Self {
        let mut fields = text.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        Facts {
            label: label.to_owned(),
            host_name: next(),
            boot_id: next(),
            kernel: next(),
            mount: Mount::parse(&next()),
            unique_id: next(),
        }
    }

    /// Returns a description of the host for people.
    pub(super) fn text(&self) -> String {
        let Facts { label, host_name, boot_id, kernel, mount, .. } = self;
        let (flock, mount) = (mount.flock(), mount.options());
        format!("{label}: host name {host_name}, boot {boot_id}, Linux {kernel}\n  mount: {mount}\n  flock: {flock}\n")
    }
}

/// Returns what follows from the facts of all hosts, or `None` if the hosts have to be tested.
pub(super) fn conclude(all: &[Facts]) -> Option<Conclusion> {
    let pairs = || all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
    // This fault switch lets tests run everything that follows on a single machine.
    if planted("check-storage-one-kernel") {
        return None;
    }
    if let Some(unknown) = all.iter().find(|facts| facts.boot_id.is_empty() || facts.mount.options().is_empty()) {
        let label = &unknown.label;
        return Some(Conclusion::NotTested(format!("{label} does not tell its boot id or its mount; is /proc there?")));
    }
    for (one, other) in pairs() {
        if one.boot_id == other.boot_id {
            return Some(Conclusion::NotTested(format!(
                "{} and {} are one machine, by their boot id {}; a kernel sees its own changes at once",
                one.label, other.label, one.boot_id
            )));
        }
    }
    for (one, other) in pairs() {
        let is_same = one.host_name == other.host_name && one.unique_id == other.unique_id;
        if is_same && one.mount.is_nfs_4() && other.mount.is_nfs_4() {
            return Some(Conclusion::Unsafe(format!(
                "{} and {} are both called {}; a server of NFS 4 takes two clients with one name for one that was \
                 restarted, and each ends the other's session; give each a host name of its own, or the kernel \
                 parameter nfs.nfs4_unique_id",
                one.label, other.label, one.host_name
            )));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(label: &str, name: &str, boot: &str, mount: &str, unique: &str) -> Facts {
        Facts::parse(label, &[name, boot, "6.1", mount, unique].join("\t"))
    }

    #[test]
    fn one_machine_and_one_name_are_recognized() {
        let nfs = "nfs4,rw,vers=4.2,local_lock=none";
        let here = facts("here", "a", "1", nfs, "");
        let conclusion = |other: Facts| conclude(&[here.clone(), other]);
        assert_eq!(conclusion(facts("there", "b", "2", nfs, "")), None);
        let one = conclusion(facts("there", "b", "1", nfs, ""));
        assert!(matches!(one, Some(Conclusion::NotTested(_))), "two hosts with one boot id are one machine");
        assert!(matches!(conclusion(facts("there", "a", "2", nfs, "")), Some(Conclusion::Unsafe(_))));
        assert_eq!(conclusion(facts("there", "a", "2", nfs, "other")), None);
        assert_eq!(conclusion(facts("there", "a", "2", "nfs,rw,vers=3", "")), None);
        assert!(matches!(conclusion(facts("there", "b", "", nfs, "")), Some(Conclusion::NotTested(_))));
    }

    #[test]
    fn own_facts_can_be_read() {
        let own = Facts::parse("here", &own(Path::new("/")));
        assert!(!own.boot_id.is_empty() && !own.mount.options().is_empty() && !own.kernel.is_empty(), "{own:?}");
        assert!(own.text().contains("not NFS") || own.mount.is_nfs());
        assert_eq!(
            facts("", "", "", "nfs,vers=3,nolock,local_lock=all", "").mount.flock().split(' ').next(),
            Some("kept")
        );
        assert_eq!(facts("", "", "", "nfs4,vers=4.2,local_lock=none", "").mount.flock(), "reaches the server");
    }
}
