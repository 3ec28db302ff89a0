//! A worker of a load that many generate: makes ready, begins when it is told to, and says what it measured to the
//! controller of the whole, interval by interval and in all.

use crate::plan::{LoadPath, OutputPlan, WorkerPlan};
use crate::post::{Post, WorkerPart};
use crate::quota::QuotaAccount;
use crate::route::Route;
use crate::run::{Raw, Runner};
use load::{Plan, Setup};
use messages::{Hello, Measured};
use rustix::rand::{GetRandomFlags, getrandom};
use say::Failure;
use std::process::ExitCode;

/// Generates a part of a load, and reports it.
///
/// # Errors
/// What the user is to know; the controller is told as well.
pub fn work(place: &WorkerPlan, path: LoadPath, load: &Plan, output: OutputPlan) -> Result<ExitCode, Failure> {
    let (route, token) = Route::find(&place.controller)?;
    let hello = Hello { token, worker: place.index, instance: instance()?, version: messages::version() };
    let post = Post::connect(route, hello)?;
    let measured = measure(place, path, load, output, &post);
    match measured {
        Ok(part) => post.deliver(part),
        Err(why) => {
            post.fail(&why.to_string());
            return Err(why);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    place: &WorkerPlan,
    path: LoadPath,
    load: &Plan,
    output: OutputPlan,
    post: &Post,
) -> Result<WorkerPart, Failure> {
    let mut mine =
        load.share(place.index, place.workers).ok_or("--worker: there are fewer connections than workers")?;
    mine.held = true;
    mine.check().map_err(|why| why.to_string())?;
    let mut runner = Runner::new(path, output, &mut mine)?;
    runner.post = Some(post.clone());
    post.end_by(&runner.signals);
    let floor = runner.floor(&mine)?;
    post.understood(understood(&mine));
    let quota = QuotaAccount::of_this_process();
    let Raw { figures, outside, .. } = runner.measure(&mine, floor, None)?;
    let throttling = quota.and_then(|quota| quota.since());
    Ok(Box::new(Measured { begun_ns: post.begun(), figures, outside, throttling }))
}

/// What a worker understood that it is to do; the address that a name has is its own to find.
fn understood(plan: &Plan) -> String {
    let mut setup = Setup::new(plan);
    setup.targets.clear();
    report::setup_json(&setup)
}

/// A number that no other process has.
fn instance() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    if filled == bytes.len() { Ok(u64::from_ne_bytes(bytes)) } else { Err("no random bits".into()) }
}
