//! Has the `refdb` that tests use start quickly, because tests start it tens of thousands of times. Only debug builds
//! with glibc are affected.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_development = std::env::var_os("PROFILE").is_some_and(|profile| profile == "debug");
    let is_gnu = std::env::var_os("CARGO_CFG_TARGET_ENV").is_some_and(|env| env == "gnu");
    // At a fixed address, the loader need not fill some 200 pages with addresses, which takes long in comparison with a
    // short command.
    if is_development && is_gnu {
        println!("cargo::rustc-link-arg-bin=refdb=-no-pie");
    }
}
