//! Ended after each write: as far as the code goes by a panic, which runs
//! nothing of what undoes, and once more by a signal that no code sees.

use super::{Fault, Folder};
use crate::{Machine as _, Which, journals, undo};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// More writes than a plan has.
const MANY: usize = 1_000;
/// What the child of [`a_process_killed_after_any_write_is_undone_exactly`]
/// is told by: its folder, and after which write it ends.
const FOLDER: &str = "NEARSIDE_TEST_APPLY_FOLDER";
const AFTER: &str = "NEARSIDE_TEST_APPLY_KILLED_AFTER";

/// Undoes what there may be, and says whether there was anything.
fn undone(folder: &Folder) -> bool {
    let machine = &mut folder.machine();
    let any = !journals(machine).expect("a folder").is_empty();
    if any {
        let restored = undo(machine, Which::Last, false).expect("undone");
        assert!(restored.iter().all(|one| one.outcome.is_as_before()), "{restored:#?}");
    }
    assert_eq!(machine.journals().expect("a folder"), Vec::<String>::new());
    any
}

#[test]
fn a_plan_ended_after_any_write_is_undone_exactly() {
    for last in 1..MANY {
        let folder = Folder::new("ended");
        let before = folder.settings();
        let mut machine = folder.machine().with(Fault::Ends(last));
        let ended = catch_unwind(AssertUnwindSafe(|| folder.apply(&mut machine).map(|_| ()))).is_err();
        if !ended {
            assert!(last > 2 * folder.settings().len() / 2, "only {last} writes");
            return;
        }
        assert!(undone(&folder), "nothing was recorded before write {last}");
        assert_eq!(folder.settings(), before, "after write {last}");
    }
    panic!("no plan has so many writes");
}

#[test]
fn an_undoing_ended_after_any_write_is_finished_by_the_next() {
    for last in 1..MANY {
        let folder = Folder::new("undoing-ended");
        let before = folder.settings();
        folder.apply(&mut folder.machine()).expect("applied");
        let mut machine = folder.machine().with(Fault::Ends(last));
        let ended = catch_unwind(AssertUnwindSafe(|| undo(&mut machine, Which::Last, false).map(|_| ()))).is_err();
        undone(&folder);
        assert_eq!(folder.settings(), before, "after write {last}");
        if !ended {
            assert!(last > 10, "only {last} writes");
            return;
        }
    }
    panic!("no plan has so many writes");
}

/// The process that waits for a confirmation sees a plan that ended in the
/// middle as one that nobody confirmed.
#[test]
fn a_trial_that_ended_in_the_middle_is_undone_by_who_waits_for_it() {
    let folder = Folder::new("trial-ended");
    let before = folder.settings();
    let mut machine = folder.machine().with(Fault::Ends(8));
    let (evidence, plan) = (folder.evidence(), folder.plan());
    let ended = catch_unwind(AssertUnwindSafe(|| {
        crate::apply(&mut machine, &evidence, &plan, Some(120), |_| Ok(())).map(|_| ())
    }));
    assert!(ended.is_err());
    let machine = &mut folder.machine();
    let name = machine.journals().expect("a folder").remove(0);
    assert!(crate::waits(machine, &name));
    assert_ne!(folder.settings(), before);
    let again = crate::apply(machine, &folder.evidence(), &folder.plan(), None, |_| Ok(()));
    assert!(matches!(again, Err(crate::ApplyError::Refused(crate::Refusal::Unfinished(_)))), "{again:?}");
    undo(machine, Which::Unconfirmed(&name), false).expect("time is over");
    assert_eq!(folder.settings(), before);
    assert!(!crate::waits(machine, &name));
}

/// The child: applies, and is killed meanwhile.
#[test]
fn child_that_applies_and_is_killed() {
    let (Ok(path), Ok(after)) = (std::env::var(FOLDER), std::env::var(AFTER)) else { return };
    // Its folder is the parent's to remove.
    let folder = std::mem::ManuallyDrop::new(Folder(path.into()));
    let after = after.parse().expect("a number");
    folder.apply(&mut folder.machine().with(Fault::Killed(after))).expect("applied, if it is not killed before");
}

#[test]
fn a_process_killed_after_any_write_is_undone_exactly() {
    use std::os::unix::process::ExitStatusExt as _;
    for after in 1..MANY {
        let folder = Folder::new("killed");
        let before = folder.settings();
        let mut child = Command::new(std::env::current_exe().expect("a test's program"));
        child.args(["--exact", "tests::killed::child_that_applies_and_is_killed"]);
        child.env(FOLDER, &folder.0).env(AFTER, after.to_string());
        let output = child.output().expect("a child");
        assert!(undone(&folder), "nothing was recorded before write {after}");
        assert_eq!(folder.settings(), before, "after write {after}");
        if output.status.signal() != Some(9) {
            assert!(output.status.success() && after > 10, "{output:?}");
            return;
        }
    }
    panic!("no plan has so many writes");
}
