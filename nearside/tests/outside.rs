//! The library as others have it: a package of its own, outside of this workspace, whose
//! programs are the examples.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Compiles these examples in a package that has the library with these features alone.
fn check(name: &str, features: &str, examples: &[&str]) {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src/bin")).expect("a folder");
    for example in examples {
        let source = library.join(format!("examples/{example}.rs"));
        fs::copy(source, folder.join(format!("src/bin/{example}.rs"))).expect("an example");
    }
    fs::write(folder.join("src/bin/readme.rs"), of_the_readme(library)).expect("a program");
    // The same versions as here: others may not have been fetched.
    fs::copy(library.join("../Cargo.lock"), folder.join("Cargo.lock")).expect("the workspace's");
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         nearside = {{ path = {:?}, default-features = false, features = [{features}] }}\nsignal-hook = \"0.4\"\n",
        library.display()
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet"])
        .current_dir(&folder)
        // Beside the packages, which are made anew: what is compiled stays, and is shared.
        .env("CARGO_TARGET_DIR", folder.with_file_name("outside.target"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .expect("cargo");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// The program that the library's README begins with.
fn of_the_readme(library: &Path) -> String {
    let readme = fs::read_to_string(library.join("README.md")).expect("the README");
    let (_, behind) = readme.split_once("```rust\n").expect("a program");
    let (program, _) = behind.split_once("```").expect("its end");
    program.to_owned()
}

#[test]
fn a_service_over_kernel_sockets_needs_no_feature() {
    check("outside-small", "", &["first", "small"]);
}

#[test]
fn the_examples_compile_outside_of_this_workspace() {
    check("outside-bypass", "\"bypass\"", &["first", "small", "echo", "hello"]);
}

/// What is compiled for a service over kernel sockets, the crates of this workspace included.
#[test]
fn a_small_service_is_built_from_fewer_than_sixty_crates() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "-p",
            "nearside",
            "--no-default-features",
            "-e",
            "normal,build",
            "--prefix",
            "none",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    let tree = String::from_utf8(tree.stdout).expect("text");
    let mut crates: Vec<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    assert!(crates.iter().any(|one| one.starts_with("nearside-sockets ")), "{tree}");
    assert!(crates.len() < 60, "{} crates:\n{}", crates.len(), crates.join("\n"));
}
