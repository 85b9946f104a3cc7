package org.refdb.gerrit.global;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Certificates of a server and a client, signed by one authority, and of a stranger, signed by another. */
final class Certificates {
  private final Path folder;

  private Certificates(Path folder) {
    this.folder = folder;
  }

  static Certificates make(Path folder) throws IOException, InterruptedException {
    Certificates made = new Certificates(folder);
    for (String authority : List.of("ca", "other-ca")) {
      made.openssl(
          "req",
          "-x509",
          "-newkey",
          "ec",
          "-pkeyopt",
          "ec_paramgen_curve:prime256v1",
          "-nodes",
          "-days",
          "2",
          "-subj",
          "/CN=" + authority,
          "-keyout",
          authority + ".key",
          "-out",
          authority + ".pem");
    }
    made.sign("server", "ca");
    made.sign("client", "ca");
    made.sign("stranger", "other-ca");
    return made;
  }

  private void sign(String name, String authority) throws IOException, InterruptedException {
    Files.writeString(
        folder.resolve("extensions"),
        "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n");
    openssl(
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=" + name,
        "-keyout",
        name + ".key",
        "-out",
        name + ".csr");
    openssl(
        "x509",
        "-req",
        "-in",
        name + ".csr",
        "-CA",
        authority + ".pem",
        "-CAkey",
        authority + ".key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "extensions",
        "-out",
        name + ".pem");
  }

  private void openssl(String... words) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("openssl"));
    command.addAll(List.of(words));
    Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(String.join(" ", command) + ": " + said);
    }
  }

  Path file(String name) {
    return folder.resolve(name);
  }

  List<String> ofServer() {
    return List.of(
        "--cert-file", file("server.pem").toString(), "--key-file", file("server.key").toString(), "--trusted-ca-file",
        file("ca.pem").toString(), "--client-cert-auth");
  }

  List<String> ofCtl() {
    return List.of(
        "--cacert",
        file("ca.pem").toString(),
        "--cert",
        file("client.pem").toString(),
        "--key",
        file("client.key").toString());
  }
}
