// An app that takes jobs: node app.mjs PORT, with the secret in LOCKSTEP_SECRET.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = Buffer.from(process.env.LOCKSTEP_SECRET.replace(/^whsec_/, ""), "base64");
const seen = new Map(); // the greatest fencing token by lane: keep it beside your data

function signed(h, body) {
  const want = createHmac("sha256", secret).update(`${h["webhook-id"]}.${h["webhook-timestamp"]}.`).update(body).digest();
  const mine = (h["webhook-signature"] ?? "").split(" ").map((s) => Buffer.from(s.slice(s.indexOf(",") + 1), "base64"));
  const fresh = Math.abs(Date.now() / 1000 - Number(h["webhook-timestamp"])) < 300;
  return fresh && mine.some((s) => s.length === want.length && timingSafeEqual(s, want));
}

function work(h, body) {
  if (!signed(h, body)) return [401, { error: "not signed by us" }];
  const key = h["lockstep-ordering-key"] ?? "job " + h["webhook-id"];
  const lane = JSON.stringify([h["lockstep-queue"], h["lockstep-tenant"], key]); // each has an order, and tokens, of its own
  const token = BigInt(h["lockstep-fencing-token"]);
  if (token < (seen.get(lane) ?? 0n)) return [409, { fencing_token: Number(seen.get(lane)) }];
  seen.set(lane, token); // with the work itself, in one transaction, if it is in a database
  console.log(h["lockstep-kind"], key, String(token), body.toString()); // the work
  return [200, { done: JSON.parse(body) }];
}

createServer(async (request, response) => {
  const [status, value] = work(request.headers, Buffer.concat(await request.toArray()));
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
}).listen(Number(process.argv[2]), "127.0.0.1");
