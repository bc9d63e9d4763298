// A worker with nothing but a PostgreSQL driver (npm install pg):
//   node worker.js HANDLERS.js QUEUE     with the database in DATABASE_URL
// HANDLERS.js exports a function for each kind: exports["mail.send"] = async (job) => result
const { Client } = require("pg");
const { randomUUID } = require("node:crypto");
const handlers = require(require("node:path").resolve(process.argv[2]));
const queue = process.argv[3] ?? "default";
const kinds = Object.keys(handlers);
const me = randomUUID(); // unique for each start of a process
const lease = "3 seconds"; // how long our jobs wait for another worker if we die
let held = null; // the claim that heartbeats renew
let stopping = false;
let wake = () => {};

async function connect(url = process.env.DATABASE_URL) {
  const client = new Client({ connectionString: url });
  client.on("error", (error) => { console.error(error.message); process.exit(1); }); // a supervisor starts us again
  await client.connect();
  return client;
}

async function main() {
  const [db, beat, ear] = await Promise.all([connect(), connect(), connect()]); // work, heartbeats, signals
  const signOfLife = () => beat.query("select channel from lockstep.register($1, 'worker.js', $2, $3, $4)", [me, [queue], kinds, lease]);
  const { channel } = (await signOfLife()).rows[0];
  ear.on("notification", () => wake());
  await ear.query(`listen ${channel}`); // before the first look for work: nothing falls in between
  const heart = setInterval(async () => {
    await signOfLife();
    if (held === null) return;
    const { rows } = await beat.query("select outcome from lockstep.extend($1, $2, $3, $4)", [me, [held.id], [held.fence], lease]);
    if (held !== null && rows[0].outcome !== "extended" && rows[0].outcome !== "busy") held.abort.abort(rows[0].outcome); // lost, or cancelled
  }, 1000);
  const upkeep = setInterval(() => beat.query("select lockstep.sweep(), lockstep.upkeep()"), 30_000); // any worker's duty

  while (!stopping) {
    const signal = new Promise((resolve) => { wake = resolve; });
    await db.query("select lockstep.due()");
    const { jobs, due_in } = (await db.query(
      `select jobs, extract(epoch from least(due_at, lease_end, looked_at + look_again) - looked_at) * 1000 as due_in
         from lockstep.claim($1, $2, $3, 1, $4)`, [me, queue, kinds, lease])).rows[0];
    if (jobs === null) { // until a signal, or something is due, or a lease may end; at most 2 s
      await Promise.race([signal, new Promise((resolve) => setTimeout(resolve, Math.max(5, Math.min(2000, due_in ?? 2000))))]);
      continue;
    }
    await work(db, jobs[0]);
  }
  clearInterval(heart); clearInterval(upkeep);
  await db.query("select lockstep.deregister($1)", [me]);
  await Promise.all([db.end(), beat.end(), ear.end()]);
}

async function work(db, job) {
  held = { id: job.id, fence: job.fence, abort: new AbortController() };
  let report = ["complete", null];
  try {
    report[1] = JSON.stringify((await handlers[job.kind](job, held.abort.signal)) ?? null);
  } catch (error) {
    report = ["fail", String(error?.stack ?? error)];
  }
  const [how, what] = report;
  for (let answer = "busy"; answer === "busy" || answer === "pending";) { // busy: its row is locked for a moment
    answer = (await db.query(`select lockstep.${how}($1, $2, $3, $4) as answer`, [me, job.id, job.fence, what])).rows[0].answer;
    if (answer === "busy" || answer === "pending") await new Promise((resolve) => setTimeout(resolve, 5));
  }
  held = null;
}

process.on("SIGTERM", () => { stopping = true; wake(); });
main().catch((error) => { console.error(error); process.exit(1); });
