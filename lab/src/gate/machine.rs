//! Describes the properties of a machine that must be the same for instruction counts to be comparable.

use std::{collections::BTreeMap, env, fs, process::Command};

use crate::process::output;

/// The features of the processor on which it depends which features valgrind shows to programs, which select their code
/// by them. Valgrind hides the vendor and the speed of the processor.
const SHOWN: [&str; 10] = ["abm", "avx", "avx2", "bmi1", "f16c", "fma", "rdrand", "rdseed", "rdtscp", "ssse3"];

/// The features of an aarch64 processor on which it depends which features valgrind shows to programs.
const SHOWN_BY_ARM: [&str; 8] = ["aes", "asimd", "asimddp", "atomics", "crc32", "pmull", "sha1", "sha2"];

/// Returns the names and values of the properties on which counts depend: the tool, the C library, the processor, and
/// what the caller adds in `more`.
pub fn find(tool: &str, more: &[(String, String)]) -> BTreeMap<String, String> {
    let libc = output(Command::new("ldd").arg("--version")).unwrap_or_default();
    let libc = libc.lines().next().unwrap_or("unknown").to_owned();
    let cpu = processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let own = [("tool", tool.to_owned()), ("libc", libc), ("cpu", cpu)];
    own.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(more.iter().cloned()).collect()
}

fn processor(cpuinfo: &str) -> String {
    let line = |start: &str| cpuinfo.lines().find(|line| line.starts_with(start));
    let (features, known): (&str, &[&str]) = match line("Features") {
        Some(features) => (features, &SHOWN_BY_ARM),
        None => (line("flags").unwrap_or_default(), &SHOWN),
    };
    let has = |feature: &&str| features.split_whitespace().any(|word| word == *feature);
    let shown: Vec<&str> = known.iter().copied().filter(has).collect();
    format!("{} {}", env::consts::ARCH, shown.join(" ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn processors_that_look_alike_to_programs_are_alike() {
        let one = processor("model name\t: One\nflags\t\t: fpu avx2 avx sha_ni\n");
        assert_eq!(one, processor("model name\t: Other\nflags\t\t: avx avx2\n"));
        assert_eq!(one, format!("{} avx avx2", std::env::consts::ARCH));
        let arm = processor("BogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm aes crc32\nCPU part\t: 0xd0c\n");
        assert_eq!(arm, format!("{} aes asimd crc32", std::env::consts::ARCH));
        assert_eq!(processor(""), std::env::consts::ARCH);
    }
}
