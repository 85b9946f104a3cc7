package org.refdb.gerrit.global.etcd;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Names a node, which is a Gerrit site, and this process of it.
 *
 * @param name lasts as long as the site
 * @param start that of this process alone
 */
public record NodeName(String name, String start) {
  /** Reads the node's name from a file of its site, or writes it there the first time. */
  public static NodeName in(Path folder) throws IOException {
    Path file = folder.resolve("node");
    if (!Files.exists(file)) {
      Files.createDirectories(folder);
      Path next = Files.createTempFile(folder, "node", ".new");
      Files.writeString(next, Generation.random().id() + "\n");
      Files.move(next, file);
    }
    return of(Files.readString(file).strip());
  }

  public static NodeName of(String name) {
    if (!name.matches("[A-Za-z0-9_.-]{1,64}")) {
      throw new IllegalArgumentException("\"" + name + "\" is no name for a node: letters, digits, dots and dashes");
    }
    return new NodeName(name, Generation.random().id());
  }

  /** For people: who this is. */
  public String text() {
    String host;
    try {
      host = InetAddress.getLocalHost().getHostName();
    } catch (IOException e) {
      host = "?";
    }
    return start + ' ' + host + " process " + ProcessHandle.current().pid();
  }
}
