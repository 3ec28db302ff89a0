//! Programs that a test has beside it: this one in another role, testpmd, ip.

use demo::child::Program;
use say::Failure;
use serde_json::Value;

/// A program with its words, in a network namespace if one is named.
pub const fn program<'a>(name: &'a str, netns: Option<&'a str>, words: Vec<String>) -> Program<'a> {
    Program { name, netns, core: None, words }
}

/// This program with other words.
///
/// # Errors
/// If it does not know where it is.
pub fn own(words: &[&str]) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("this program's path is no text")?.to_owned();
    Ok(core::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect())
}

/// What a child of ours printed as JSON.
///
/// # Errors
/// If it is none.
pub fn parse(name: &str, said: &str) -> Result<Value, Failure> {
    serde_json::from_str(said).map_err(|why| format!("{name} printed no JSON ({why}): {said}").into())
}
