//! What nginx does over each kind of link.

/// A TAP device.
mod tap {
    use crate::server::Over;
    use crate::{serves, workers};

    const OVER: Over = Over::Tap;

    #[test]
    fn nginx_serves_as_it_is() {
        serves::nginx_serves_as_it_is(OVER);
    }

    #[test]
    fn a_slow_reader_gets_all() {
        serves::a_slow_reader_gets_all(OVER);
    }

    #[test]
    fn a_worker_that_is_killed_is_replaced() {
        serves::a_worker_that_is_killed_is_replaced(OVER);
    }

    #[test]
    fn nginx_reloads_and_changes_its_binary() {
        serves::nginx_reloads_and_changes_its_binary(OVER);
    }

    #[test]
    fn the_kernel_has_the_port_and_nobody_behind_it() {
        serves::the_kernel_has_the_port_and_nobody_behind_it(OVER);
    }

    #[test]
    fn nginx_passes_requests_on() {
        serves::nginx_passes_requests_on(OVER);
    }

    #[test]
    fn a_download_outlives_three_reloads() {
        workers::a_download_outlives_three_reloads(OVER);
    }

    #[test]
    fn workers_become_more_and_fewer() {
        workers::workers_become_more_and_fewer(OVER);
    }

    #[test]
    fn one_of_two_workers_is_killed() {
        workers::one_of_two_workers_is_killed(OVER);
    }

    #[test]
    fn nobody_notices_a_reload() {
        workers::nobody_notices_a_reload(OVER);
    }

    #[test]
    fn the_old_master_is_killed_amid_the_change() {
        workers::the_old_master_is_killed_amid_the_change(OVER);
    }
}

/// AF_XDP, with one queue for all workers.
mod xdp {
    use crate::server::Over;
    use crate::{serves, workers};

    const OVER: Over = Over::Xdp { queues: 1 };

    #[test]
    fn nginx_serves_as_it_is() {
        serves::nginx_serves_as_it_is(OVER);
    }

    #[test]
    fn a_slow_reader_gets_all() {
        serves::a_slow_reader_gets_all(OVER);
    }

    #[test]
    fn a_worker_that_is_killed_is_replaced() {
        serves::a_worker_that_is_killed_is_replaced(OVER);
    }

    #[test]
    fn nginx_reloads_and_changes_its_binary() {
        serves::nginx_reloads_and_changes_its_binary(OVER);
    }

    #[test]
    fn nginx_passes_requests_on() {
        serves::nginx_passes_requests_on(OVER);
    }

    #[test]
    fn a_download_outlives_three_reloads() {
        workers::a_download_outlives_three_reloads(OVER);
    }

    #[test]
    fn one_of_two_workers_is_killed() {
        workers::one_of_two_workers_is_killed(OVER);
    }

    #[test]
    fn nobody_notices_a_reload() {
        workers::nobody_notices_a_reload(OVER);
    }
}

/// AF_XDP, with a queue for each of two workers.
mod xdp_queues {
    use crate::server::Over;
    use crate::workers;

    const OVER: Over = Over::Xdp { queues: 2 };

    #[test]
    fn a_download_outlives_three_reloads() {
        workers::a_download_outlives_three_reloads(OVER);
    }

    #[test]
    fn workers_become_more_and_fewer() {
        workers::workers_become_more_and_fewer(OVER);
    }

    #[test]
    fn one_of_two_workers_is_killed() {
        workers::one_of_two_workers_is_killed(OVER);
    }

    #[test]
    fn nobody_notices_a_reload() {
        workers::nobody_notices_a_reload(OVER);
    }
}
