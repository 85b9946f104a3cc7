//! Switches for planted faults, which prove that a test can fail.

/// Returns whether the fault of this name is planted: the environment variable `REFDB_PLANTED_FAULT` names it.
///
/// Always false, and free, without the feature `planted-faults`, which only the tests of this workspace request. The
/// variable is read once in a process.
#[cfg(feature = "planted-faults")]
pub fn planted(fault: &str) -> bool {
    static NAMED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("REFDB_PLANTED_FAULT").ok());
    NAMED.as_deref() == Some(fault)
}

/// Returns whether the fault of this name is planted: never, without the feature `planted-faults`.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub const fn planted(_fault: &str) -> bool {
    false
}
