-- Prints what was measured as one line of JSON, with more percentiles than
-- wrk prints by itself. The list is filled in when this file is written out.
local wanted = { PERCENTILES }

function done(summary, latency, requests)
    local values = {}
    for i = 1, #wanted do
        local value = wanted[i] > 0 and latency:percentile(wanted[i]) or latency.min
        -- wrk answers zero for a rank past its last sample.
        values[i] = string.format("%d", value > 0 and value or latency.max)
    end
    local errors = summary.errors
    io.write(string.format(
        '\n{"requests":%d,"microseconds":%d,"bytes":%d,"errors":%d,"max":%d,"percentiles":[%s]}\n',
        summary.requests, summary.duration, summary.bytes,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency.max, table.concat(values, ",")))
end
