package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/** Writes a gerrit.war that has nothing but the version for which the installer looks. */
final class War {
  private War() {}

  static void write(Path file, String version) throws IOException {
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    manifest.getMainAttributes().put(Attributes.Name.IMPLEMENTATION_VERSION, version);
    new JarOutputStream(Files.newOutputStream(file), manifest).close();
  }
}
