package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.annotations.PluginName;
import com.google.gerrit.sshd.PluginCommandModule;
import com.google.inject.Inject;

/** The SSH commands: {@code ssh HOST refdb COMMAND}. */
public final class CommandsModule extends PluginCommandModule {
  @Inject
  CommandsModule(@PluginName String plugin) {
    super(plugin);
  }

  @Override
  protected void configureCommands() {
    command(Commands.Stat.class);
    command(Commands.Verify.class);
    command(Commands.Flush.class);
    command(Commands.Warm.class);
    command(Commands.Shadow.class);
  }
}
