package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Path;
import java.util.jar.JarFile;
import java.util.jar.Manifest;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The version of a site's Gerrit, read from its war. */
record GerritVersion(int major, int minor, String text) {
  /** The first minor release of Gerrit 3 that refdb works with. */
  static final int MINOR_MIN = 12;

  /** The last minor release that refdb was built and tested against. */
  static final int MINOR_MAX = 14;

  private static final Pattern NUMBER = Pattern.compile("^v?(\\d{1,4})\\.(\\d{1,4})");

  static GerritVersion of(Path war) throws InstallException {
    try (JarFile file = new JarFile(war.toFile())) {
      Manifest manifest = file.getManifest();
      String text = manifest == null ? null : manifest.getMainAttributes().getValue("Implementation-Version");
      if (text == null) {
        throw new InstallException(war + " does not say which Gerrit it is: is it a gerrit.war?");
      }
      return parse(text);
    } catch (IOException e) {
      throw new InstallException(
          "cannot read " + war + " (" + e.getMessage() + "): name the site's gerrit.war with --war FILE", e);
    }
  }

  static GerritVersion parse(String text) throws InstallException {
    Matcher number = NUMBER.matcher(text);
    if (!number.find()) {
      throw new InstallException("\"" + text + "\" is no version of Gerrit");
    }
    return new GerritVersion(Integer.parseInt(number.group(1)), Integer.parseInt(number.group(2)), text);
  }

  void check() throws InstallException {
    if (major != 3 || minor < MINOR_MIN || minor > MINOR_MAX) {
      throw new InstallException(
          "this refdb is for Gerrit 3." + MINOR_MIN + " to 3." + MINOR_MAX + ", the site has " + text);
    }
  }
}
