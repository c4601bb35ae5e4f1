// An OpenID provider for resource servers:
//   node provider.mjs PORT
// Every browser is logged in as alice and consents. Access tokens are for the
// resource that a client names (RFC 8707): JWTs (RFC 9068), but for the client "opaque".
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const redirect_uris = ["http://127.0.0.1:1/callback"];
const person = { token_endpoint_auth_method: "none", application_type: "native", redirect_uris, grant_types: ["authorization_code", "refresh_token"] };
const program = { client_secret: "s3cret-of-a-program", redirect_uris: [], response_types: [], grant_types: ["client_credentials"] };

const provider = new Provider(issuer, {
  clients: [
    { client_id: "app", ...person },
    { client_id: "opaque", ...person },
    { client_id: "service", ...program },
    { client_id: "vmcp", ...program, client_secret: "s3cret", grant_types: [] },
  ],
  cookies: { keys: ["of a test"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: () => ({ groups: ["dev"] }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === "vmcp" },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource, client) => ({
        audience: resource,
        scope: "mcp:tools files:admin",
        accessTokenFormat: client.clientId === "opaque" ? "opaque" : "jwt",
      }),
    },
  },
});

// interact answers the questions to a person.
async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === "login") {
    return provider.interactionFinished(req, res, { login: { accountId: "alice" } });
  }
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope = [], missingOIDCClaims = [], missingResourceScopes = {} } = prompt.details;
  grant.addOIDCScope(missingOIDCScope.join(" "));
  grant.addOIDCClaims(missingOIDCClaims);
  for (const [resource, scopes] of Object.entries(missingResourceScopes)) grant.addResourceScope(resource, scopes.join(" "));
  await provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

const serve = provider.callback();
createServer((req, res) => {
  if (!req.url.startsWith("/interaction/")) return serve(req, res);
  interact(req, res).catch((err) => res.writeHead(500).end(String(err.stack)));
}).listen(port, "127.0.0.1");
