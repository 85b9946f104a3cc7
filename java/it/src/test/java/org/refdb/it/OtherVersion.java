package org.refdb.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** The same refdb with another version number: what there will be after a release that changed nothing. */
final class OtherVersion {
  private static final String NUMBER_BEGIN = "version=";

  private OtherVersion() {}

  /**
   * Makes a refdb-gerrit.jar of another version.
   *
   * @param made the file to make
   * @return the version number, which has the same length as the true one
   */
  static String of(Path jar, Path made) throws IOException {
    Files.copy(jar, made);
    try (FileSystem zip = FileSystems.newFileSystem(made)) {
      String number = number(zip.getPath("/org/refdb/engine/engine.properties"));
      String other = number.substring(0, number.length() - 1) + (number.endsWith("9") ? "8" : "9");
      replace(zip.getPath("/org/refdb/engine/engine.properties"), number, other);
      try (Stream<Path> platforms = Files.list(zip.getPath("/native"))) {
        for (Path platform : platforms.toList()) {
          replace(platform.resolve("librefdb_jni.so"), number, other);
        }
      }
      Path plugin = Files.createTempFile("refdb-plugin", ".jar");
      Files.write(plugin, Files.readAllBytes(zip.getPath("/plugins/refdb.jar")));
      try (FileSystem inner = FileSystems.newFileSystem(plugin)) {
        replace(inner.getPath("/org/refdb/gerrit/plugin/plugin.properties"), number, other);
      }
      Files.write(zip.getPath("/plugins/refdb.jar"), Files.readAllBytes(plugin));
      Files.delete(plugin);
      return other;
    }
  }

  private static String number(Path properties) throws IOException {
    return Files.readString(properties).lines()
        .filter(line -> line.startsWith(NUMBER_BEGIN))
        .findFirst().orElseThrow()
        .substring(NUMBER_BEGIN.length()).strip();
  }

  private static void replace(Path file, String number, String other) throws IOException {
    // Latin 1 keeps every byte as it is.
    String before = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
    String after = before.replace(number, other);
    if (after.equals(before)) {
      throw new IOException(file + " does not say that it is of version " + number);
    }
    Files.write(file, after.getBytes(StandardCharsets.ISO_8859_1));
  }
}
