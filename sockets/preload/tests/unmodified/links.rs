//! What nginx does over each kind of link.

/// Tests over a link, each a function of `serves`, `paces`, `stopped` or `workers` that takes it.
macro_rules! over {
    ($($(#[doc = $what:literal])* $link:ident: $over:expr => { $($room:ident: $($test:ident),+;)+ })+) => {
        $($(#[doc = $what])* mod $link {
            use crate::server::Over;

            const OVER: Over = $over;

            $($(#[test]
            fn $test() {
                crate::$room::$test(OVER);
            })+)+
        })+
    };
}

over! {
    /// A TAP device.
    tap: Over::Tap => {
        serves: nginx_serves_as_it_is, a_service_manager_is_told, a_slow_reader_gets_all, files_are_sent_by_threads,
            a_worker_that_is_killed_is_replaced,
            nginx_reloads_and_changes_its_binary, the_kernel_has_the_port_and_nobody_behind_it,
            nginx_passes_requests_on;
        paces: a_worker_that_polls_takes_its_core_and_hears_signals, a_worker_sleeps_by_the_clock,
            frames_are_held_back, every_pace_serves;
        stopped: a_worker_that_is_stopped_keeps_nobody_else;
        workers: a_download_outlives_three_reloads, workers_become_more_and_fewer, one_of_two_workers_is_killed,
            nobody_notices_a_reload, no_handshake_fails_where_its_worker_ends, kept_connections_end_in_order_at_a_reload,
            the_old_master_is_killed_amid_the_change;
    }
    /// AF_XDP, with one queue for all workers.
    xdp: Over::Xdp { queues: 1 } => {
        serves: nginx_serves_as_it_is, a_slow_reader_gets_all, files_are_sent_by_threads, a_worker_that_is_killed_is_replaced,
            nginx_reloads_and_changes_its_binary, nginx_passes_requests_on;
        paces: a_worker_that_polls_takes_its_core_and_hears_signals, a_worker_sleeps_by_the_clock,
            frames_are_held_back, every_pace_serves;
        stopped: a_worker_that_is_stopped_keeps_nobody_else;
        workers: a_download_outlives_three_reloads, one_of_two_workers_is_killed, nobody_notices_a_reload,
            no_handshake_fails_where_its_worker_ends, kept_connections_end_in_order_at_a_reload;
    }
    /// AF_XDP, with a queue for each of two workers.
    xdp_queues: Over::Xdp { queues: 2 } => {
        stopped: a_worker_that_is_stopped_keeps_nobody_else;
        workers: a_download_outlives_three_reloads, workers_become_more_and_fewer, one_of_two_workers_is_killed,
            nobody_notices_a_reload;
    }
}
