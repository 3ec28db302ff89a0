//! Names a condition of compilation to the compiler: `fuzzing`, where libFuzzer
//! runs the targets (`scripts/libfuzzer.sh`).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rerun-if-changed=build.rs");
}
