//! The one binary: the command line, turned into a plan, turned into one call.

mod args;

fn main() {
    let _ = args::from_env();
}
