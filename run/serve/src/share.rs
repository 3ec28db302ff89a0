//! What is asked for all workers together, divided.

/// Each worker's, or silo's, part of what is asked for all of them.
pub fn share(mut server: server::Config, connections: usize, workers: usize) -> server::Config {
    server.limits.connections = connections;
    let limits = &mut server.limits;
    limits.streams = limits.streams.div_ceil(workers);
    limits.stream_bytes = limits.stream_bytes.div_ceil(workers);
    if let Some(directory) = server.content.directory_mut() {
        directory.media_bytes /= workers;
        directory.cache_bytes = directory.cache_bytes.div_ceil(workers).max(directory.cache_file_bytes);
    }
    server
}
