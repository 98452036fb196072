-- Requests of sessions, drawn uniformly.
--
--   wrk -s draw.lua URL -- FILE NUMBER SEED LENGTH
--
-- FILE holds ids, one a line, of which the first NUMBER are drawn from. Each
-- request is a POST with a body of LENGTH bytes, or a GET if that is none. The
-- requests are built before the load begins, so that a turn costs one random
-- number each. At the end a line of JSON, marked by "figures", tells what was
-- seen; times are in microseconds.
local requests = {}

function init(args)
   local left, length = tonumber(args[2]), tonumber(args[4])
   local method, body = "GET", nil
   if length > 0 then method, body = "POST", string.rep("x", length) end
   for id in io.lines(args[1]) do
      if left == 0 then break end
      left = left - 1
      requests[#requests + 1] = wrk.format(method, nil, {
         ["Host"] = wrk.headers["Host"], ["x-agentcube-session-id"] = id }, body)
   end
   math.randomseed(tonumber(args[3]))
end

function request()
   return requests[math.random(#requests)]
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      'figures {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
